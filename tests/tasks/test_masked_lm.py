"""`MaskedLM` and `Pretraining`: heads, masks over texts, filling in, next sentences."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from tiny import VOCABULARY, tiny_encoder, tiny_preprocessor

import keras_bert_zoo as kbz
from keras_bert_zoo.datasets.corpus import PretrainingCorpus
from keras_bert_zoo.datasets.pretraining import pretraining_dataset

FACTS = ["paris is the capital of france .", "london is the capital of england ."] * 8
DOCUMENTS = [
    ["good tea .", "a good cup .", "the tea is fine .", "fine cup !", "what tea ?"],
    ["bad film .", "a bad film !", "what is the film ?", "the film is bad ."],
    ["paris is the capital .", "the capital of france .", "london of england ."],
]


def test_it_learns_to_fill_in():
    keras.utils.set_random_seed(0)
    task = kbz.MaskedLM(tiny_encoder(hidden_size=32), preprocessor=tiny_preprocessor())
    task.compile(kbz.adamw(1e-2, 200, 10), clip_norm=1.0)
    task.fit(FACTS * 50, batch_size=16, epochs=4, verbose=0)
    filled = task.fill(["Paris is the [MASK] of France.", "[MASK] is the [MASK] of England."])
    assert [len(text) for text in filled] == [1, 2]  # As many as there are gaps.
    assert filled[0][0][0]["token"] == "capital"
    assert filled[1][0][0]["token"] in ("paris", "london")
    assert filled[1][1][0]["token"] == "capital"
    for candidates in (*filled[0], *filled[1]):
        shares = [candidate["probability"] for candidate in candidates]
        assert len(shares) == 5 and shares == sorted(shares, reverse=True) and sum(shares) <= 1
    assert len(task.fill("the [MASK]", top_k=3)[0][0]) == 3
    assert task.fill([]) == []


def test_fill_refuses_what_it_cannot_fill():
    task = kbz.MaskedLM(tiny_encoder(), preprocessor=tiny_preprocessor())
    with pytest.raises(ValueError, match=r"first 12 tokens. Here are 0 of 0: 'no gap'"):
        task.fill(["a [MASK]", "no gap"])
    with pytest.raises(ValueError, match=r"first 12 tokens. Here are 1 of 2: '\[MASK\] tea"):
        task.fill(["[MASK] " + "tea " * 30 + "[MASK]"])
    with pytest.raises(ValueError, match="single texts"):
        task.fill([("a [MASK]", "tea")])
    with pytest.raises(ValueError, match="`top_k`"):
        task.fill(["a [MASK]"], top_k=0)
    with pytest.raises(ValueError, match=r"'tea tea"):
        task.fill(["tea " * 30 + "[MASK]"])
    with pytest.raises(ValueError, match="no preprocessor"):
        kbz.MaskedLM(tiny_encoder()).fill(["a [MASK]"])


def batches(dataset):
    return [(x["token_ids"].numpy(), y["masked_ids"].numpy()) for x, y in dataset]


def same(left, right):
    pairs = zip(left, right, strict=True)
    return all(np.array_equal(a, b) for m, o in pairs for a, b in zip(m, o, strict=True))


def test_masks_over_texts_are_new_each_epoch_and_fixed_in_evaluation():
    # BC-D09
    task = kbz.MaskedLM(tiny_encoder(), preprocessor=tiny_preprocessor(), seed=5)
    task.compile("sgd")
    texts = tf.data.Dataset.from_tensors((tf.constant(FACTS),))
    training, evaluation = task.prepare(texts, training=True), task.prepare(texts)
    epochs = [batches(training) for _ in range(3)]
    assert not same(epochs[0], epochs[1]) and not same(epochs[1], epochs[2])
    assert same(batches(evaluation), batches(evaluation))
    again = kbz.MaskedLM(tiny_encoder(), preprocessor=tiny_preprocessor(), seed=5)
    again.compile("sgd")
    repeated = again.prepare(texts, training=True)
    assert all(same(epoch, batches(repeated)) for epoch in epochs)
    assert task.evaluate(FACTS, verbose=0) == task.evaluate(FACTS, verbose=0)
    logs = task.fit(FACTS, validation_data=FACTS, verbose=0).history
    assert logs["val_loss"][0] == pytest.approx(task.evaluate(FACTS, verbose=0)[0], abs=1e-5)
    # A second `fit` is not the first one again.
    assert not same(batches(task.prepare(texts, training=True)), epochs[0])


def test_a_table_longer_than_the_vocabulary_fills_in_words_alone():
    task = kbz.MaskedLM(tiny_encoder(vocab_size=64), preprocessor=tiny_preprocessor())
    candidates = task.fill(["a [MASK]"], top_k=64)[0][0]
    assert sorted(candidate["token"] for candidate in candidates) == sorted(VOCABULARY)


def test_labels_with_texts_are_refused():
    task = kbz.MaskedLM(tiny_encoder(), preprocessor=tiny_preprocessor())
    task.compile("sgd")
    with pytest.raises(ValueError, match="labels came with them"):
        task.fit(FACTS, np.zeros(len(FACTS)), verbose=0)
    pretraining = kbz.Pretraining(tiny_encoder(), preprocessor=tiny_preprocessor())
    pretraining.compile("sgd")
    with pytest.raises(ValueError, match="next_sentence=False"):
        pretraining.fit(FACTS, verbose=0)


def test_the_head_is_tied_to_the_token_table():
    task = kbz.MaskedLM(tiny_encoder())
    tables = [w for w in task.weights if len(VOCABULARY) in w.shape and len(w.shape) == 2]
    assert [table.path for table in tables] == ["token_embedding/embeddings"]
    inputs = {
        "token_ids": np.array([[2, 5, 4, 3]]),
        "segment_ids": np.zeros((1, 4), "int32"),
        "padding_mask": np.ones((1, 4), "int32"),
        "masked_positions": np.array([[2, 1]]),
    }
    vectors = task.encoder({k: inputs[k] for k in task.encoder.input})["sequence_output"]
    hidden = task.get_layer("masked_lm_transform")(tf.gather(vectors, [2, 1], axis=1))
    table = keras.ops.convert_to_numpy(task.encoder.token_embedding.embeddings)
    expected = keras.ops.convert_to_numpy(hidden) @ table.T
    bias = task.get_layer("masked_lm_bias").bias
    bias.assign(np.arange(len(VOCABULARY)))
    logits = keras.ops.convert_to_numpy(task(inputs)["masked_lm_logits"])
    np.testing.assert_allclose(logits, expected + np.arange(len(VOCABULARY)), atol=1e-4)


@pytest.mark.parametrize("next_sentence", [True, False])
def test_pretraining_on_documents(next_sentence, tmp_path, run_python):
    keras.utils.set_random_seed(0)
    preprocessor = tiny_preprocessor()
    corpus = PretrainingCorpus.from_documents(DOCUMENTS, preprocessor.tokenizer, verbose=False)
    task = kbz.Pretraining(
        tiny_encoder(hidden_size=32), preprocessor=preprocessor, next_sentence=next_sentence
    )
    task.compile(kbz.adamw(5e-3, 150, 10), clip_norm=1.0)
    training = pretraining_dataset(corpus, 16, 8, seed=1, next_sentence=next_sentence)
    held = pretraining_dataset(
        corpus, 16, 8, seed=2, epochs=4, shuffle=False, next_sentence=next_sentence
    )
    before = task.evaluate(held, verbose=0, return_dict=True)
    task.fit(training, steps_per_epoch=150, verbose=0)
    after = task.evaluate(held, verbose=0, return_dict=True)
    assert after["masked_lm_loss"] < 0.8 * before["masked_lm_loss"]
    assert ("next_sentence_loss" in after) == next_sentence
    task.save(tmp_path / "task.keras")
    inputs, _ = next(iter(held))
    loaded = keras.saving.load_model(tmp_path / "task.keras")
    for name, value in task.predict(inputs, verbose=0).items():
        np.testing.assert_allclose(loaded.predict(inputs, verbose=0)[name], value, atol=1e-6)
    assert loaded.next_sentence == next_sentence
    assert loaded.fill(["good [MASK] ."]) == task.fill(["good [MASK] ."])


def test_label_zero_is_the_true_next_one():
    # BC-D07: a head that favours index 0 says "follows".
    task = kbz.Pretraining(tiny_encoder())
    head = task.get_layer("next_sentence_logits")
    head.kernel.assign(np.zeros(head.kernel.shape))
    head.bias.assign([9.0, 0.0])
    corpus = PretrainingCorpus.from_documents(DOCUMENTS, tiny_preprocessor().tokenizer, False)
    dataset = pretraining_dataset(corpus, 16, 8, epochs=5, short_sequence_rate=0.0)
    task.compile("sgd")
    truly_next = []
    text = corpus.tokens.tolist()
    for inputs, targets in dataset:
        for row, label in zip(inputs["segment_ids"], targets["next_sentence"], strict=True):
            truly_next.append(label.numpy() == 0)
            assert row.shape == (16,)
    figures = task.evaluate(dataset, verbose=0, return_dict=True)
    assert figures["next_sentence_accuracy"] == pytest.approx(np.mean(truly_next), abs=1e-6)
    assert text


def test_the_encoder_goes_on_to_another_task():
    keras.utils.set_random_seed(0)
    preprocessor = tiny_preprocessor()
    pretrained = kbz.MaskedLM(tiny_encoder(), preprocessor=preprocessor)
    pretrained.compile(kbz.adamw(1e-2, 20))
    pretrained.fit(FACTS, verbose=0)
    task = kbz.TextClassifier(pretrained.encoder, ["a", "b"], preprocessor=preprocessor)
    table = pretrained.encoder.token_embedding.embeddings.numpy()
    np.testing.assert_array_equal(task.encoder.token_embedding.embeddings.numpy(), table)
    task.compile(kbz.adamw(1e-2, 20))
    task.fit(["good", "bad"], ["a", "b"], verbose=0)
    assert task.classify(["good"])[0]["label"] in ("a", "b")


def left_to_right(task_class=kbz.MaskedLM, **settings):
    still = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    encoder = tiny_encoder(hidden_size=32, is_decoder=True, **still)
    return task_class(encoder, preprocessor=tiny_preprocessor(), **settings)


def next_tokens(texts):
    """Texts as ids, and the token that follows each, as batches for `fit`."""
    ids = {name: value.numpy() for name, value in tiny_preprocessor()(texts).items()}
    places = np.arange(ids["token_ids"].shape[1] - 1, dtype=np.int32)
    targets = {
        "masked_ids": ids["token_ids"][:, 1:],
        "masked_weights": ids["padding_mask"][:, 1:].astype(np.float32),
    }
    return ids | {"masked_positions": np.tile(places, (len(texts), 1))}, targets


def test_over_a_causal_encoder_it_learns_what_comes_next():
    """Of two facts the country is told by the city; which city comes first cannot be known."""
    keras.utils.set_random_seed(0)
    task = left_to_right()
    task.compile(kbz.adamw(2e-2, 160, 10), clip_norm=1.0)
    x, y = next_tokens(FACTS * 8)
    task.fit(x, y, batch_size=16, epochs=20, verbose=0)
    words = 8  # Seven and [SEP].
    figures = task.evaluate(x, y, verbose=0, return_dict=True)
    assert figures["masked_lm_loss"] == pytest.approx(np.log(2) / words, abs=0.005)
    logits = task.predict({name: value[:2] for name, value in x.items()}, verbose=0)
    found = logits["masked_lm_logits"].argmax(-1)[:, 5]
    assert [VOCABULARY[token] for token in found] == ["france", "england"]


def test_its_class_in_the_files_of_others(tmp_path):
    assert kbz.MaskedLM(tiny_encoder()).architecture == "BertForMaskedLM"
    assert left_to_right().architecture == "BertLMHeadModel"
    assert left_to_right(kbz.Pretraining).architecture == "BertForPreTraining"
    task = left_to_right(kbz.Pretraining, next_sentence=False)
    assert task.architecture == "BertLMHeadModel"
    task.save(tmp_path / "task.keras")
    loaded = keras.saving.load_model(tmp_path / "task.keras")
    assert loaded.architecture == "BertLMHeadModel"
    x, _ = next_tokens(FACTS)
    np.testing.assert_allclose(
        loaded.predict(x, verbose=0)["masked_lm_logits"],
        task.predict(x, verbose=0)["masked_lm_logits"],
        atol=1e-6,
    )


@pytest.mark.parametrize(
    "task_class, settings", [(kbz.MaskedLM, {}), (kbz.Pretraining, {"next_sentence": False})]
)
def test_over_a_causal_encoder_there_are_no_gaps_to_fill(task_class, settings, tmp_path):
    task = left_to_right(task_class, **settings)
    task.compile("sgd")
    for act in (
        lambda: task.fill(["the [MASK] of france"]),
        lambda: task.export(tmp_path / "1"),
        lambda: task.export(tmp_path / "1", with_text=False),
        lambda: task.fit(FACTS, verbose=0),
    ):
        with pytest.raises(
            ValueError, match=r"causal encoder .*nothing after a \[MASK\]: feed ids"
        ):
            act()
    assert not list(tmp_path.iterdir())
