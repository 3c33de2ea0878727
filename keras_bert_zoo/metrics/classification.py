"""Accuracy, precision, recall, F1 and Matthews correlation of predicted classes, as scikit-learn.

python -m keras_bert_zoo.metrics.classification LABELS PREDICTIONS [--positive CLASS]

Both files have a class a line. The last line printed is JSON, in fractions.
"""

import argparse
import math
from collections.abc import Sequence

import numpy as np

from keras_bert_zoo.metrics.counts import Rates, averaged, rates
from keras_bert_zoo.metrics.programs import read_lines, run

Class = int | str


def accuracy(labels: Sequence[Class], predictions: Sequence[Class]) -> float:
    """The share of predictions that equal their label.

    Args:
        labels: the right classes, all of them integers or all strings.
        predictions: the predicted classes, of the same number and kind.

    Raises:
        ValueError: if there are none, if their numbers or kinds differ, or if they are not classes.
    """
    labels, predictions = _columns(labels, predictions)
    return float(np.mean(labels == predictions))


def confusion_matrix(
    labels: Sequence[Class], predictions: Sequence[Class], classes: Sequence[Class] | None = None
) -> np.ndarray:
    """How often each class (rows) was predicted as each class (columns).

    Args:
        labels, predictions: see `accuracy`.
        classes: the classes in the order wanted; what has another label or prediction is left out.
            By default all that occur, sorted.

    Returns:
        int64 `[classes, classes]`.

    Raises:
        ValueError: as `accuracy`, and if a class stands twice or is of another kind.
    """
    labels, predictions = _columns(labels, predictions)
    classes = _classes(labels, predictions, classes)
    place = {name: number for number, name in enumerate(classes.tolist())}
    matrix = np.zeros((len(classes), len(classes)), np.int64)
    for label, prediction in zip(labels.tolist(), predictions.tolist(), strict=True):
        if label in place and prediction in place:
            matrix[place[label], place[prediction]] += 1
    return matrix


def precision_recall_f1(
    labels: Sequence[Class],
    predictions: Sequence[Class],
    average: str | None = "binary",
    positive: Class = 1,
    classes: Sequence[Class] | None = None,
) -> Rates:
    """Precision, recall and F1. Each is 0.0 where it would divide by zero.

    So precision is 0.0 where nothing was predicted, recall where there is nothing to find, and F1
    where both are, as scikit-learn has it by default, which warns besides. A macro average counts
    such classes in.

    Args:
        labels, predictions: see `accuracy`.
        average: "binary" for those of the class `positive`; "macro", "micro" or "weighted" for an
            average over the classes; None for arrays of one value for each class.
        positive: the class that "binary" looks at.
        classes: the classes to average over, for all averages but "binary". By default all that
            occur, sorted.

    Raises:
        ValueError: as `confusion_matrix`, on another average, and for "binary" if there are more
            than two classes, or two of which none is `positive`.
    """
    labels, predictions = _columns(labels, predictions)
    if average == "binary":
        present = _classes(labels, predictions, None).tolist()
        if len(present) > 2 or (len(present) == 2 and positive not in present):
            raise ValueError(
                "The average 'binary' is for two classes, one of them the positive one. Received "
                f"positive={positive!r} and the classes {present!r:.200}. Choose another positive "
                "class, or the average 'macro', 'micro' or 'weighted'."
            )
        chosen = np.array([positive])
        return Rates(*(one.item() for one in rates(*_counts(labels, predictions, chosen))))
    counts = _counts(labels, predictions, _classes(labels, predictions, classes))
    return rates(*counts) if average is None else averaged(*counts, average)


def matthews_correlation(labels: Sequence[Class], predictions: Sequence[Class]) -> float:
    """Matthews correlation, of two or more classes, from -1 to 1.

    Returns:
        The correlation; 0.0 if all labels or all predictions are of one class, where it is not
        defined, as in scikit-learn.

    Raises:
        ValueError: as `accuracy`.
    """
    matrix = confusion_matrix(labels, predictions)
    # Python's integers: products of the counts of a large set leave int64.
    gold, predicted = matrix.sum(1).tolist(), matrix.sum(0).tolist()
    total = sum(gold)
    covariance = int(np.trace(matrix)) * total - sum(map(int.__mul__, gold, predicted))
    spread = [total**2 - sum(count**2 for count in counts) for counts in (gold, predicted)]
    return covariance / math.sqrt(spread[0] * spread[1]) if all(spread) else 0.0


def _counts(labels, predictions, classes):
    """Right, predicted and existing ones of each class."""
    right = labels[labels == predictions]
    return tuple(
        np.array([np.count_nonzero(column == name) for name in classes])
        for column in (right, predictions, labels)
    )


def _columns(labels, predictions):
    labels, predictions = _column(labels, "labels"), _column(predictions, "predictions")
    if len(labels) != len(predictions) or not len(labels):
        raise ValueError(
            "As many predictions as labels are needed, at least one. Received "
            f"{len(labels)} labels and {len(predictions)} predictions."
        )
    if (labels.dtype.kind == "U") != (predictions.dtype.kind == "U"):
        raise ValueError(
            "Labels and predictions must both be names or both be numbers. Received a label "
            f"{labels[0].item()!r} and a prediction {predictions[0].item()!r}."
        )
    return labels, predictions


def _column(values, name):
    # A list that mixes names and numbers would silently become one of names.
    if isinstance(values, (list, tuple)) and len({isinstance(one, str) for one in values}) > 1:
        raise ValueError(f"{name} are all names or all numbers. Received both: {values!r:.100}")
    column = np.asarray(values)
    if column.dtype.kind == "O" and all(isinstance(one, str) for one in column.flat):
        column = column.astype(str)  # As pandas has strings.
    if column.dtype.kind == "f" and np.array_equal(column, np.round(column)):
        column = column.astype(np.int64)
    if column.ndim != 1 or column.dtype.kind not in "biuU":
        raise ValueError(
            f"{name} must be a column of classes, integers or strings. Received shape "
            f"{column.shape} and dtype {column.dtype}. Of logits or probabilities take the argmax."
        )
    return column.astype(np.int64) if column.dtype.kind == "b" else column


def _classes(labels, predictions, classes):
    if classes is None:
        return np.unique(np.concatenate([labels, predictions]))
    chosen = _column(classes, "classes")
    if len(set(chosen.tolist())) < len(chosen):
        raise ValueError(f"A class stands twice: {list(classes)!r:.200}")
    if (chosen.dtype.kind == "U") != (labels.dtype.kind == "U"):
        raise ValueError(
            "Classes and labels must both be names or both be numbers. Received a class "
            f"{chosen[0].item()!r} and a label {labels[0].item()!r}."
        )
    return chosen


def _main() -> dict:
    parser = argparse.ArgumentParser(
        prog="python -m keras_bert_zoo.metrics.classification", description=__doc__.split("\n")[0]
    )
    parser.add_argument("labels", metavar="LABELS", help="File of the right classes, one a line.")
    parser.add_argument("predictions", metavar="PREDICTIONS", help="File of the predicted ones.")
    parser.add_argument("--positive", help="The class whose precision, recall and F1 to give.")
    arguments = parser.parse_args()
    labels, predictions = read_lines(arguments.labels), read_lines(arguments.predictions)
    scores = {
        "accuracy": accuracy(labels, predictions),
        "matthews_correlation": matthews_correlation(labels, predictions),
    }
    if arguments.positive is not None:
        one = precision_recall_f1(labels, predictions, "binary", arguments.positive)
        scores["binary"] = one._asdict()
    for average in ("macro", "micro", "weighted"):
        scores[average] = precision_recall_f1(labels, predictions, average)._asdict()
    classes = sorted({*labels, *predictions})
    return scores | {
        "classes": classes,
        "confusion_matrix": confusion_matrix(labels, predictions, classes).tolist(),
    }


if __name__ == "__main__":
    run(_main)
