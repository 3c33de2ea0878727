"""Scores of classes by hand and against scikit-learn, and what they are where undefined."""

import json
import warnings

import numpy as np
import pytest

from keras_bert_zoo.metrics import classification
from keras_bert_zoo.metrics.classification import (
    accuracy,
    confusion_matrix,
    matthews_correlation,
    precision_recall_f1,
)
from keras_bert_zoo.metrics.programs import run

AVERAGES = ("macro", "micro", "weighted")
# Two classes, several, one alone, none in common, one that is never predicted or never right.
DEGENERATE = [
    ([1], [1]),
    ([0], [1]),
    ([1], [0]),
    ([0, 0, 0], [0, 0, 0]),
    ([1, 1, 1], [1, 1, 1]),
    ([1, 1, 0], [0, 0, 0]),
    ([0, 0, 0], [1, 0, 1]),
    ([0, 1, 0, 1], [1, 0, 1, 0]),
    ([0, 1, 2, 2], [3, 3, 3, 3]),
    ([0, 1, 2, 3], [0, 0, 0, 0]),
    ([2, 2, 2, 2], [2, 1, 2, 2]),
    ([5, -1, 5], [5, -1, 9]),
]


def test_by_hand():
    labels, predictions = [1, 1, 1, 0, 0], [1, 1, 0, 0, 1]
    assert accuracy(labels, predictions) == 0.6
    assert confusion_matrix(labels, predictions).tolist() == [[1, 1], [1, 2]]
    both = precision_recall_f1(labels, predictions)
    assert both == (pytest.approx(2 / 3), pytest.approx(2 / 3), pytest.approx(2 / 3))
    other = precision_recall_f1(labels, predictions, positive=0)
    assert other == (0.5, 0.5, 0.5)
    macro = precision_recall_f1(labels, predictions, "macro")
    assert macro.f1 == pytest.approx(7 / 12)
    assert precision_recall_f1(labels, predictions, "micro").f1 == pytest.approx(0.6)
    weighted = precision_recall_f1(labels, predictions, "weighted")
    assert weighted.f1 == pytest.approx((3 * 2 / 3 + 2 * 0.5) / 5)
    # (2 * 1 - 1 * 1) / sqrt(3 * 3 * 2 * 2)
    assert matthews_correlation(labels, predictions) == pytest.approx(1 / 6, abs=1e-15)


def test_classes_are_names_or_numbers_of_any_kind():
    names = ["b", "a", "b"]
    assert accuracy(names, np.array(names, object)) == 1.0
    assert accuracy([True, False], np.array([1.0, 1.0], np.float32)) == 0.5
    assert precision_recall_f1(names, ["b", "b", "b"], positive="b").recall == 1.0
    chosen = confusion_matrix(names, ["b", "c", "a"], classes=["b", "a"])
    assert chosen.tolist() == [[1, 1], [0, 0]]
    assert chosen.dtype == np.int64
    by_class = precision_recall_f1(names, ["b", "c", "a"], None, classes=["c", "b"])
    assert by_class.precision.tolist() == [0.0, 1.0] and by_class.recall.tolist() == [0.0, 0.5]


def test_what_divides_by_zero_is_zero():
    assert precision_recall_f1([0, 0], [0, 0]) == (0.0, 0.0, 0.0)
    assert precision_recall_f1([1, 0], [0, 0]) == (0.0, 0.0, 0.0)
    assert matthews_correlation([1, 1], [1, 1]) == 0.0
    assert matthews_correlation([1, 0], [1, 1]) == 0.0
    assert precision_recall_f1([0], [0], "weighted", classes=[7]) == (0.0, 0.0, 0.0)


def test_correlation_of_many():
    # 4e5 examples: products of four counts are beyond 64 bits.
    labels = np.arange(400_000) % 2
    predictions = np.where(np.arange(400_000) % 10 == 0, 1 - labels, labels)
    # Of ten, the labels 0 have four right and the labels 1 all five: [[4, 1], [0, 5]].
    assert matthews_correlation(labels, predictions) == pytest.approx(20 / 600**0.5, abs=1e-12)


def assert_as_sklearn(metrics, labels, predictions, classes=None):
    compared = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Of what divides by zero.
        assert accuracy(labels, predictions) == metrics.accuracy_score(labels, predictions)
        expected = metrics.confusion_matrix(labels, predictions)
        assert np.array_equal(confusion_matrix(labels, predictions), expected)
        correlation = metrics.matthews_corrcoef(labels, predictions)
        assert matthews_correlation(labels, predictions) == pytest.approx(correlation, abs=1e-14)
        for average in (*AVERAGES, None):
            ours = precision_recall_f1(labels, predictions, average, classes=classes)
            theirs = metrics.precision_recall_fscore_support(
                labels, predictions, average=average, labels=classes
            )
            for one, other in zip(ours, theirs, strict=False):
                np.testing.assert_allclose(one, other, rtol=0, atol=1e-14)
                compared += np.size(one)
        if set(labels) | set(predictions) <= {0, 1}:
            ours = precision_recall_f1(labels, predictions)
            theirs = metrics.precision_recall_fscore_support(labels, predictions, average="binary")
            assert ours == pytest.approx(theirs[:3], abs=1e-14)
            compared += 3
    return compared + 3


def test_against_sklearn_at_random():
    metrics = pytest.importorskip("sklearn.metrics")
    random = np.random.default_rng(7)
    compared = 0
    for _ in range(200):
        size, number = int(random.integers(1, 60)), int(random.integers(2, 6))
        labels = random.integers(0, number, size)
        guesses = random.integers(0, number, size)
        predictions = np.where(random.random(size) < 0.5, labels, guesses)
        compared += assert_as_sklearn(metrics, labels.tolist(), predictions.tolist())
        names = np.array(["no", "yes", "other", "x", "y", "z"])
        compared += assert_as_sklearn(metrics, names[labels].tolist(), names[predictions].tolist())
        compared += assert_as_sklearn(metrics, labels.tolist(), predictions.tolist(), [1, 0])
    assert compared > 10_000


@pytest.mark.parametrize("labels, predictions", DEGENERATE)
def test_against_sklearn_where_undefined(labels, predictions):
    metrics = pytest.importorskip("sklearn.metrics")
    assert_as_sklearn(metrics, labels, predictions)
    assert_as_sklearn(metrics, labels, predictions, [labels[0], 17])


@pytest.mark.parametrize(
    "labels, predictions, said",
    [
        ([], [], "0 labels and 0 predictions"),
        ([1, 0], [1], "2 labels and 1 predictions"),
        (["a"], [1], "both be names or both be numbers.*'a'.*1"),
        (["a", 1], ["a", "b"], "labels are all names or all numbers"),
        ([0, 1], [[0.1, 0.9], [0.8, 0.2]], r"predictions must be.*\(2, 2\).*take the argmax"),
        ([0, 1], [0.2, 0.7], "predictions must be a column of classes.*float64"),
        ([0, 1], [0, None], "predictions must be a column"),
    ],
)
def test_what_are_no_classes(labels, predictions, said):
    for function in (accuracy, confusion_matrix, matthews_correlation, precision_recall_f1):
        with pytest.raises(ValueError, match=said):
            function(labels, predictions)


def test_refusals():
    with pytest.raises(ValueError, match=r"'binary' is for two classes.*\[0, 1, 2\]"):
        precision_recall_f1([0, 1], [2, 1])
    with pytest.raises(ValueError, match=r"positive=1 and the classes \[0, 2\]"):
        precision_recall_f1([0, 0], [2, 0])
    with pytest.raises(ValueError, match="average must be one of .*received 'mean'"):
        precision_recall_f1([0, 1], [0, 1], "mean")
    with pytest.raises(ValueError, match="A class stands twice"):
        confusion_matrix([0, 1], [0, 1], classes=[0, 0])
    with pytest.raises(ValueError, match="Classes and labels must both be names"):
        confusion_matrix([0, 1], [0, 1], classes=["0"])


def test_program(tmp_path, monkeypatch, capsys):
    for name, text in (("labels", "no\r\nyes\nyes\n"), ("predictions", "no\nno\nyes")):
        (tmp_path / name).write_bytes(text.encode())
    files = [str(tmp_path / name) for name in ("labels", "predictions")]
    monkeypatch.setattr("sys.argv", ["classification", *files, "--positive", "yes"])
    run(classification._main)
    scores = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert scores["accuracy"] == pytest.approx(2 / 3)
    assert scores["binary"] == {"precision": 1.0, "recall": 0.5, "f1": pytest.approx(2 / 3)}
    assert scores["matthews_correlation"] == pytest.approx(0.5)
    assert scores["confusion_matrix"] == [[1, 0], [1, 1]] and scores["classes"] == ["no", "yes"]
