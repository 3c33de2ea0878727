"""`TokenClassifier`: which tokens count, and how; what an export says of each."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from tiny import tiny_encoder, tiny_preprocessor
from tiny_heads import LABELS, batch_for, tiny_head

import keras_bert_zoo as kbz
from keras_bert_zoo.tasks.token_classifier import TokenClassifier

TEXTS = ["Paris is fine .", "good tea", "what is the capital of france ?", ""]
PLACES = ("paris", "london", "france", "england")


def made(**settings):
    keras.utils.set_random_seed(0)
    return tiny_head("token", **settings)


def labels_of(task, ids):
    """1 at names of places, 0 at other words, -1 at all else."""
    tokens = [[task.tokenizer.id_to_token(int(i)) for i in row] for row in ids["token_ids"]]
    return np.array([[-1 if t[0] == "[" else int(t in PLACES) for t in row] for row in tokens])


def cross_entropies(logits, y):
    logits = logits.astype("float64")
    logits -= np.log(np.exp(logits).sum(-1, keepdims=True))
    return -np.take_along_axis(logits, np.maximum(y, 0)[..., None], -1)[..., 0]


def test_it_learns_and_an_export_tells_each_token(tmp_path):
    task = made()
    task.compile(kbz.adamw(1e-2, 60), clip_norm=1.0)
    ids = task.preprocessor(TEXTS)
    y = labels_of(task, ids)
    task.fit(ids, y, batch_size=2, epochs=30, verbose=0)
    assert task.evaluate(ids, y, verbose=0, return_dict=True)["token_accuracy"] == 1
    task.export(tmp_path / "1")
    answer = kbz.load_saved_model(tmp_path / "1").signatures["serving_default"](
        text=tf.constant(TEXTS)
    )
    expected = [["" if n < 0 else LABELS[n] for n in row] for row in y]
    assert answer["labels"].numpy().astype(str).tolist() == expected
    shares = tf.nn.softmax(task.predict(TEXTS, verbose=0)).numpy().max(-1)
    np.testing.assert_allclose(answer["probabilities"], np.where(y < 0, 0, shares), atol=1e-5)
    lines = (tmp_path / "1" / "assets" / "labels.txt").read_text().splitlines()
    assert lines == LABELS


def test_special_tokens_of_pairs_have_no_label():
    task = made()
    ids = task.preprocessor((["good tea", ""], ["paris is fine", "tea"]))
    named = task.serve(ids)["labels"].numpy() != b""
    np.testing.assert_array_equal(named, labels_of(task, ids) >= 0)


def test_loss_and_score_are_means_over_labelled_tokens():
    task = made()
    task.compile("sgd")
    x, y = batch_for("token")
    logits = task.predict(x, verbose=0)
    losses, hits, used = cross_entropies(logits, y), logits.argmax(-1) == y, y >= 0
    assert len(set(used.sum(axis=1))) > 3
    figures = task.evaluate(x, y, batch_size=3, verbose=0, return_dict=True)
    assert figures["loss"] == pytest.approx(losses[used].mean(), rel=1e-5)
    assert figures["token_accuracy"] == pytest.approx(hits[used].mean())
    # Any negative number stands for none, of any type of integer.
    for other in (np.where(used, y, -100), y.astype("int8"), y.astype("int64"), y.tolist()):
        assert task.evaluate(x, other, verbose=0)[0] == pytest.approx(losses[used].mean(), rel=1e-5)


def test_weights_of_rows_and_of_tokens():
    task = made()
    task.compile("sgd")
    x, y = batch_for("token")
    losses, used = cross_entropies(task.predict(x, verbose=0), y), y >= 0
    random = np.random.default_rng(0)
    for weights in (random.random(y.shape), random.random(len(y)), random.random((len(y), 1))):
        spread = np.broadcast_to(weights if weights.ndim == 2 else weights[:, None], y.shape)
        value = task.evaluate(x, y, sample_weight=weights, batch_size=4, verbose=0)[0]
        assert value == pytest.approx(np.average(losses[used], weights=spread[used]), rel=1e-5)


def test_a_batch_without_labels_gives_a_finite_step():
    task = made()
    task.compile(keras.optimizers.SGD(1.0))
    x, y = batch_for("token")
    before = [w.numpy() for w in task.trainable_weights]
    assert task.train_on_batch(x, np.full_like(y, -1), return_dict=True)["loss"] == 0
    for old, new in zip(before, task.trainable_weights, strict=True):
        np.testing.assert_array_equal(old, new.numpy())


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda y: y + 1, "from 0 to 2, or negative where there is none. Received: 3"),
        (lambda y: y * 1.0, r"Received: float64 of \(8, 12\)"),
        (lambda y: y[:, 0], r"ids of \(8, 12\) and labels of \(8,\)"),
        (lambda y: y[:, :5], r"ids of \(8, 12\) and labels of \(8, 5\)"),
        (lambda y: np.where(y < 0, "O", "O"), "Received: <U1"),
        (lambda y: None, "needs labels"),
    ],
)
def test_bad_labels(change, message):
    task = made()
    task.compile("sgd")
    x, y = batch_for("token")
    for call in (task.fit, task.evaluate):
        with pytest.raises(ValueError, match=message):
            call(x, change(y), verbose=0)
    if change(y) is not None:
        with pytest.raises(ValueError, match=message):
            task.fit(x, y, validation_data=(x, change(y)), verbose=0)


def test_labels_in_datasets():
    task = made()
    task.compile("sgd")
    x, y = batch_for("token")
    rows = tf.data.Dataset.from_tensor_slices
    assert task.evaluate(rows((x, y)).batch(8), verbose=0)[0] == pytest.approx(
        task.evaluate(x, y, verbose=0)[0], rel=1e-5
    )
    with pytest.raises(ValueError, match="whole numbers"):
        task.evaluate(rows((x, y * 1.0)).batch(8), verbose=0)
    for wrong in (y + 3, y[:, :5]):
        with pytest.raises(tf.errors.InvalidArgumentError):
            task.evaluate(rows((x, wrong)).batch(8), verbose=0)
    with pytest.raises(ValueError, match="whole numbers"):
        made().loss_terms(x, tf.constant(y[:, 0]), task(x), None)


def test_texts_of_unequal_batches_are_predicted():
    preprocessor = tiny_preprocessor(12)
    longest = kbz.TextPreprocessor(preprocessor.tokenizer, 12, padding="longest")
    encoder = tiny_encoder()
    one = TokenClassifier(encoder, LABELS, preprocessor)
    two = TokenClassifier(encoder, LABELS, longest)
    two.set_weights(one.get_weights())
    expected = one.predict(TEXTS, batch_size=1, verbose=0)
    assert expected.shape == (4, 12, 3)
    np.testing.assert_allclose(two.predict(TEXTS, batch_size=1, verbose=0), expected, atol=1e-5)
    assert two.predict([], verbose=0).shape == (0, 12, 3) or two.predict([], verbose=0).size == 0
    # Targets of texts are as long as the preprocessor's rows.
    one.compile("sgd")
    two.compile("sgd")
    y = labels_of(one, preprocessor(TEXTS))
    assert two.evaluate(TEXTS, y, batch_size=2, verbose=0) == pytest.approx(
        one.evaluate(preprocessor(TEXTS), y, verbose=0), abs=1e-5
    )


def test_bad_set_ups():
    for labels, message in (
        (["O"], "at least two labels"),
        (None, "Received: None"),
        (["O", "O"], "Twice or more: O"),
        ([0, 1], "Labels are names"),
    ):
        with pytest.raises(ValueError, match=message):
            TokenClassifier(tiny_encoder(), labels)
    task = made()
    with pytest.raises(ValueError, match=r"SparseCategoricalCrossentropy\(from_logits=True\)"):
        task.compile("sgd", loss="sparse_categorical_crossentropy")
    task.compile("sgd")
    with pytest.raises(ValueError, match="weigh tokens by `sample_weight`"):
        task.fit(*batch_for("token"), class_weight={0: 1.0}, verbose=0)


def test_another_loss():
    task, (x, y) = made(), batch_for("token")
    task.compile("sgd")
    expected = task.evaluate(x, y, verbose=0)
    task.compile("sgd", loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    assert task.evaluate(x, y, verbose=0) == pytest.approx(expected, abs=1e-6)


def test_fixed_length_and_xla():
    encoder = tiny_encoder(sequence_length=12)
    x, y = batch_for("token")
    figures = []
    for jit_compile in (False, True):
        task = made(encoder=encoder)
        task.compile("sgd", jit_compile=jit_compile)
        figures.append(task.evaluate(x, y, verbose=0))
    assert figures[0] == pytest.approx(figures[1], abs=1e-5)
