"""`NextSentence`: the classifier it is, with labels, head and pairs of its own."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from tiny import tiny_encoder, tiny_preprocessor
from tiny_heads import tiny_head

import keras_bert_zoo as kbz

FOLLOWS = [("what is tea", "tea is fine"), ("what is a cup", "tea is good")]
RANDOM = [("what is tea", "paris is fine"), ("what is a cup", "france is good")]


def test_it_learns_which_sentence_follows():
    keras.utils.set_random_seed(1)
    task = tiny_head("next_sentence", tiny_encoder(hidden_size=32))
    assert task.labels == ["IsNext", "NotNext"] and task.pair is True
    task.compile(kbz.adamw(1e-2, 100, 10), clip_norm=1.0)
    texts, names = (FOLLOWS + RANDOM) * 10, (["IsNext"] * 2 + ["NotNext"] * 2) * 10
    task.fit(texts, names, batch_size=8, epochs=20, verbose=0)
    assert task.evaluate(texts, [0, 0, 1, 1] * 10, verbose=0, return_dict=True)["accuracy"] == 1
    answers = task.classify(FOLLOWS + RANDOM)
    assert [row["label"] for row in answers] == ["IsNext", "IsNext", "NotNext", "NotNext"]


def test_the_head_is_that_of_pretraining():
    """The same vectors through the same weights, and no dropout on the way."""
    pretrained = kbz.Pretraining(
        tiny_encoder(hidden_dropout_prob=0, attention_probs_dropout_prob=0)
    )
    task = tiny_head("next_sentence", pretrained.encoder)
    for weight in ("kernel", "bias"):
        values = np.random.default_rng(0).normal(size=getattr(head(task), weight).shape)
        for part in (pretrained, task):
            getattr(head(part), weight).assign(values)
    ids = task.preprocessor(tuple(map(list, zip(*FOLLOWS, strict=True))))
    masked = {"masked_positions": tf.constant([[1], [1]])}
    expected = pretrained(ids | masked)["next_sentence_logits"]
    for training in (False, True):
        np.testing.assert_allclose(task(ids, training=training), expected, atol=1e-6)


def head(task):
    return task.get_layer("next_sentence_logits")


def test_single_texts_are_refused():
    task = tiny_head("next_sentence")
    with pytest.raises(ValueError, match="takes pairs of texts, and single texts were given"):
        task.classify(["what is tea"])
    with pytest.raises(TypeError, match="labels"):
        tiny_head("next_sentence", labels=["a", "b"])
    task.compile("sgd")
    with pytest.raises(ValueError, match="among IsNext, NotNext"):
        task.fit(FOLLOWS, ["IsNext", "Follows"], verbose=0)


def test_a_preprocessor_too_short_for_pairs():
    task = tiny_head("next_sentence", preprocessor=tiny_preprocessor(2))
    with pytest.raises(ValueError, match="at least 3"):
        task.predict(FOLLOWS)
