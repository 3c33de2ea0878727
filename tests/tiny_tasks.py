"""A tiny task of every kind, with weights that are not the initial ones, and batches for them."""

import numpy as np
import tensorflow as tf
from tiny import VOCABULARY, tiny_config, tiny_preprocessor

import keras_bert_zoo as kbz

LABELS = ["bad", "good", "fine"]


def trained(model, seed=0):
    """Puts other values than the initial ones everywhere."""
    random = np.random.default_rng(seed)
    for weight in model.weights:
        weight.assign(random.normal(size=weight.shape, scale=0.3))
    return model


def encoder(**changes):
    return kbz.BertEncoder(tiny_config(hidden_dropout_prob=0.0, **changes))


TASKS = {
    "classifier": lambda: kbz.TextClassifier(encoder(), LABELS, tiny_preprocessor(), dropout=0.25),
    "regression": lambda: kbz.TextClassifier(encoder(), None, tiny_preprocessor()),
    "multi_label": lambda: kbz.MultiLabelClassifier(encoder(), LABELS, tiny_preprocessor()),
    "tagger": lambda: kbz.TokenClassifier(encoder(), LABELS, tiny_preprocessor(), dropout=0.5),
    "qa": lambda: kbz.QuestionAnswering(encoder(), tiny_preprocessor()),
    "choice": lambda: kbz.MultipleChoice(encoder(), tiny_preprocessor()),
    "next": lambda: kbz.NextSentence(encoder(), tiny_preprocessor()),
    "masked": lambda: kbz.MaskedLM(encoder(), tiny_preprocessor()),
    "pretraining": lambda: kbz.Pretraining(encoder(), tiny_preprocessor()),
    "pretraining_masked": lambda: kbz.Pretraining(
        encoder(), tiny_preprocessor(), next_sentence=False
    ),
    "left_to_right": lambda: kbz.MaskedLM(encoder(is_decoder=True), tiny_preprocessor()),
    "embedder": lambda: kbz.TextEmbedder(
        encoder(), tiny_preprocessor(), pooling="max", normalize=False
    ),
}


def batch_for(task):
    random = np.random.default_rng(7)
    shape = (2, 3, 9) if isinstance(task, kbz.MultipleChoice) else (3, 9)
    batch = {
        "token_ids": random.integers(5, len(VOCABULARY), shape),
        "segment_ids": random.integers(0, 2, shape),
        "padding_mask": np.ones(shape, np.int32),
    }
    batch["padding_mask"][0, ..., 6:] = 0
    if "masked_positions" in task.input:
        batch["masked_positions"] = random.integers(0, 6, (3, 2))
    return {name: tf.constant(value, tf.int32) for name, value in batch.items()}


def equal(first, second):
    first, second = tf.nest.flatten(first), tf.nest.flatten(second)
    assert len(first) == len(second)
    return all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
