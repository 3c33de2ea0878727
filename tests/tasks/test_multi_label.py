"""`MultiLabelClassifier`: labels in many forms, loss, score, decisions."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from tiny import tiny_encoder, tiny_preprocessor
from tiny_heads import tiny_head

import keras_bert_zoo as kbz
from keras_bert_zoo.tasks.multi_label import MultiLabelClassifier

LABELS = ["film", "tea", "good"]
TEXTS = ["a good film", "bad tea", "what ?", "good tea", "the film", "good"]
NAMES = [["film", "good"], ["tea"], [], ["good", "tea"], ["film"], ["good"]]
SWITCHES = np.array([[1, 0, 1], [0, 1, 0], [0, 0, 0], [0, 1, 1], [1, 0, 0], [0, 0, 1]])


def made(labels=LABELS, **settings):
    keras.utils.set_random_seed(0)
    return tiny_head("multi_label", labels=list(labels), **settings)


def test_it_learns_any_number_of_labels():
    task = made(encoder=tiny_encoder(hidden_size=32, initializer_range=0.1))
    task.compile(kbz.adamw(5e-3, 120, 10), clip_norm=1.0)
    task.fit(TEXTS * 4, NAMES * 4, batch_size=8, epochs=40, verbose=0)
    answers = task.classify(TEXTS)
    assert [sorted(row["labels"]) for row in answers] == [sorted(row) for row in NAMES]
    for row in answers:
        assert list(row["probabilities"]) == LABELS
        assert all(0 <= share <= 1 for share in row["probabilities"].values())
    assert [row["labels"] for row in task.classify(TEXTS, threshold=0.0)] == [LABELS] * 6
    assert not any(row["labels"] for row in task.classify(TEXTS, threshold=1.0))
    assert task.classify([]) == []
    for threshold in (-0.1, 1.1, float("nan")):
        with pytest.raises(ValueError, match="`threshold` is a probability"):
            task.classify(TEXTS, threshold=threshold)


def test_loss_and_score_are_those_of_the_decisions():
    task = made()
    task.compile("sgd")
    logits = task.predict(TEXTS, verbose=0).astype("float64")
    figures = task.evaluate(TEXTS, SWITCHES, verbose=0, return_dict=True)
    shares = 1 / (1 + np.exp(-logits))
    losses = -np.where(SWITCHES == 1, np.log(shares), np.log(1 - shares))
    assert figures["loss"] == pytest.approx(losses.mean(), rel=1e-5)
    assert figures["label_accuracy"] == pytest.approx(((logits > 0) == SWITCHES).mean())


def test_all_forms_of_labels_give_the_same_figures():
    task = made()
    task.compile("sgd")
    ids = task.preprocessor(TEXTS)
    filled = [[*row, "", ""][:2] for row in NAMES]
    slices = tf.data.Dataset.from_tensor_slices
    forms = [
        (TEXTS, NAMES),
        (TEXTS, [tuple(row) for row in NAMES]),
        (TEXTS, [[name.encode() for name in row] for row in NAMES]),
        (TEXTS, np.array([*NAMES, None], dtype=object)[:-1]),
        (TEXTS, tf.ragged.constant(NAMES)),
        (TEXTS, filled),
        (TEXTS, np.array(filled)),
        (TEXTS, SWITCHES.tolist()),
        (TEXTS, SWITCHES.astype(bool)),
        (TEXTS, tf.constant(SWITCHES)),
        (ids, NAMES),
        (ids, SWITCHES),
        (slices((TEXTS, SWITCHES)), None),
        (slices((TEXTS, SWITCHES)).batch(4), None),
        (slices((TEXTS, filled)).batch(4), None),
        (slices((TEXTS, tf.ragged.constant(NAMES))), None),
        (slices((TEXTS, tf.ragged.constant(NAMES))).batch(4), None),
        (slices((ids, tf.ragged.constant(NAMES))).batch(4), None),
        (slices((ids, SWITCHES)).batch(4), None),
    ]
    expected = task.evaluate(ids, SWITCHES, verbose=0, return_dict=True)
    for x, y in forms:
        figures = task.evaluate(x, y, verbose=0, return_dict=True)
        assert figures == pytest.approx(expected, abs=1e-5), (x, y)


def test_validation_takes_names_too():
    task = made()
    task.compile("sgd")
    logs = task.fit(TEXTS, NAMES, validation_data=(TEXTS[4:], NAMES[4:]), verbose=0).history
    figures = task.evaluate(TEXTS[4:], NAMES[4:], verbose=0, return_dict=True)
    assert logs["val_loss"][0] == pytest.approx(figures["loss"], abs=1e-5)
    logs = task.fit(TEXTS, NAMES, validation_split=1 / 3, shuffle=False, verbose=0).history
    figures = task.evaluate(TEXTS[4:], NAMES[4:], verbose=0, return_dict=True)
    assert logs["val_loss"][0] == pytest.approx(figures["loss"], abs=1e-5)
    ids = task.preprocessor(TEXTS)
    logs = task.fit(ids, NAMES, validation_data=(ids, NAMES), verbose=0).history
    figures = task.evaluate(TEXTS, NAMES, verbose=0, return_dict=True)
    assert logs["val_loss"][0] == pytest.approx(figures["loss"], abs=1e-5)


def test_one_label_is_enough():
    task = made(labels=["tea"])
    task.compile("sgd")
    assert task.fit(["tea", "film"], [["tea"], []], verbose=0).history["loss"][0] > 0
    assert task.fit(["tea", "film"], [[1], [0]], verbose=0).history["loss"][0] > 0
    assert len(task.classify(["tea"])[0]["probabilities"]) == 1


@pytest.mark.parametrize(
    "labels, message",
    [
        ([["good"], ["fair"]], "film, tea, good. Received: 'fair' for example 1"),
        (["good", "tea"], "Received: 'good' for example 0"),
        ([0, 1], "Received: 0 for example 0|labels of"),
        ([[0, 1], [1, 0]], r"Received: \[0, 1\] for example 0"),
        ([[0, 1, 2], [1, 0, 0]], r"Received: \[0, 1, 2\] for example 0"),
        ([[0, 1, 1], [1, 0, np.nan]], r"Received: \[1, 0, nan\] for example 1"),
        (np.array([[0, 1, 1], [1, 0, 0.5]]), r"Received: \[1.0, 0.0, 0.5\] for example 1"),
        (np.eye(2), r"labels of \(2, 2\)"),
        (np.zeros(2), r"labels of \(2,\)"),
        ([["good", 1], []], r"Received: \['good', 1\] for example 0"),
        ([["good"]], "2 inputs, but `y` has 1"),
    ],
)
def test_bad_labels(labels, message):
    task = made()
    task.compile("sgd")
    with pytest.raises(ValueError, match=message):
        task.fit(["good", "bad"], labels, verbose=0)


@pytest.mark.parametrize(
    "labels", [[["fair", ""]], [["good", "bad"]], [[0, 1, 2]], [[0.0, 0.5, 1.0]]]
)
def test_bad_labels_in_a_dataset(labels):
    task = made()
    task.compile("sgd")
    dataset = tf.data.Dataset.from_tensor_slices((["good"], labels)).batch(1)
    with pytest.raises(tf.errors.InvalidArgumentError, match="film, tea, good"):
        task.fit(dataset, verbose=0)


def test_labels_of_another_width_in_a_dataset():
    task = made()
    task.compile("sgd")
    for x in (["good"], task.preprocessor(["good"])):
        dataset = tf.data.Dataset.from_tensor_slices((x, [[0, 1]])).batch(1)
        with pytest.raises(ValueError, match="film, tea, good"):
            task.fit(dataset, verbose=0)


def test_bad_set_ups():
    for labels, message in (
        ([], "at least one label"),
        (None, "Received: None"),
        (["a", "a"], "Twice or more: a"),
        ([0], "Labels are names"),
        (["a\nb"], "one line"),
    ):
        with pytest.raises(ValueError, match=message):
            MultiLabelClassifier(tiny_encoder(), labels, tiny_preprocessor())
    task = made()
    with pytest.raises(ValueError, match=r"BinaryCrossentropy\(from_logits=True\)"):
        task.compile("sgd", loss="binary_crossentropy")
    task.compile("sgd")
    with pytest.raises(ValueError, match="`sample_weight`"):
        task.fit(TEXTS, NAMES, class_weight={0: 1.0, 1: 2.0}, verbose=0)
    with pytest.raises(ValueError, match="needs labels"):
        task.fit(TEXTS, verbose=0)
    with pytest.raises(ValueError, match="no examples"):
        task.fit([], [], verbose=0)


def test_another_loss():
    task = made()
    task.compile("sgd", loss=keras.losses.BinaryFocalCrossentropy(from_logits=True))
    expected = keras.losses.BinaryFocalCrossentropy(from_logits=True)(
        SWITCHES.astype("float32"), task.predict(TEXTS, verbose=0)
    )
    assert task.evaluate(TEXTS, NAMES, verbose=0)[0] == pytest.approx(float(expected), rel=1e-5)
    # A bare function of each decision is averaged over the labels.
    task.compile("sgd", loss=lambda y, logits: tf.square(y - logits))
    expected = np.mean((SWITCHES - task.predict(TEXTS, verbose=0)) ** 2)
    assert task.evaluate(TEXTS, NAMES, verbose=0)[0] == pytest.approx(expected, rel=1e-5)


def test_pairs_are_learnt_as_by_any_classifier():
    task = made()
    assert len(task.classify([("good", "tea")])) == 1 and task.pair is True


def test_an_export_gives_each_decision(tmp_path):
    task = made()
    task.export(tmp_path / "1")
    answer = kbz.load_saved_model(tmp_path / "1").signatures["serving_default"](
        text=tf.constant(TEXTS)
    )
    assert set(answer) == {"label_names", "probabilities", "logits"}
    expected = [list(row["probabilities"].values()) for row in task.classify(TEXTS)]
    np.testing.assert_allclose(answer["probabilities"], expected, atol=1e-6)
    assert answer["label_names"].numpy().astype(str).tolist() == [LABELS] * 6
