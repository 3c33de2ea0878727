"""Precision, recall and F1 from counts, and their averages over classes."""

from typing import NamedTuple

import numpy as np

AVERAGES = ("micro", "macro", "weighted")


class Rates(NamedTuple):
    """Precision, recall and F1: floats, or float64 arrays of one for each class."""

    precision: float | np.ndarray
    recall: float | np.ndarray
    f1: float | np.ndarray


def rates(correct: np.ndarray, predicted: np.ndarray, gold: np.ndarray) -> Rates:
    """Precision, recall and F1 from counts, elementwise; 0.0 where the divisor is 0.

    So precision is 0.0 where nothing was predicted, recall where there is nothing to find, and F1
    where both are. F1 is `2 * correct / (predicted + gold)`.

    Args:
        correct, predicted, gold: integers, scalars or arrays of the same shape.
    """
    correct, predicted, gold = (np.asarray(count) for count in (correct, predicted, gold))
    return Rates(
        _divide(correct, predicted), _divide(correct, gold), _divide(2 * correct, predicted + gold)
    )


def averaged(correct: np.ndarray, predicted: np.ndarray, gold: np.ndarray, average: str) -> Rates:
    """Precision, recall and F1 of all classes together, as floats.

    Args:
        correct, predicted, gold: integer arrays of one count for each class.
        average: "micro" adds the counts up; "macro" takes the mean over the classes; "weighted"
            the mean weighted by `gold`. 0.0 where there is no class, or no weight.

    Raises:
        ValueError: on another average.
    """
    if average not in AVERAGES:
        raise ValueError(f"average must be one of {AVERAGES}, received {average!r}.")
    counts = [np.asarray(count) for count in (correct, predicted, gold)]
    if average == "micro":
        return Rates(*map(float, rates(*(count.sum() for count in counts))))
    weights = counts[2] if average == "weighted" else np.ones_like(counts[2])
    if not weights.sum():
        return Rates(0.0, 0.0, 0.0)
    return Rates(*(float(np.average(values, weights=weights)) for values in rates(*counts)))


def _divide(above, below):
    return np.divide(above, below, out=np.zeros(np.shape(below)), where=below != 0)
