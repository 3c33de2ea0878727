"""Pearson's and Spearman's correlation, by which similarity of sentences is judged."""

from collections.abc import Sequence

import numpy as np


def pearson(first: Sequence[float], second: Sequence[float]) -> float:
    """Pearson's correlation of two columns of numbers, from -1 to 1.

    Returns:
        The correlation; NaN if one of the columns is constant, as it is then undefined.

    Raises:
        ValueError: if the columns differ in length, have fewer than two numbers, or hold one that
            is not finite.
    """
    first, second = _columns(first, second)
    # A constant column may have a mean that is off by rounding: its spread is asked for itself.
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        return float("nan")
    first, second = first - first.mean(), second - second.mean()
    first, second = first / np.linalg.norm(first), second / np.linalg.norm(second)
    return float(np.clip(first @ second, -1.0, 1.0))


def spearman(first: Sequence[float], second: Sequence[float]) -> float:
    """Spearman's correlation: Pearson's of the ranks, equal numbers sharing their mean rank.

    Returns and raises as `pearson` does.
    """
    first, second = _columns(first, second)
    return pearson(_ranks(first), _ranks(second))


def _ranks(values: np.ndarray) -> np.ndarray:
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[place]


def _columns(first, second):
    first, second = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if first.ndim != 1 or first.shape != second.shape or len(first) < 2:
        raise ValueError(
            "A correlation is of two columns of the same length, at least 2. "
            f"Received shapes: {first.shape} and {second.shape}"
        )
    if not (np.isfinite(first).all() and np.isfinite(second).all()):
        raise ValueError("A correlation is of finite numbers, and there are NaN or infinite ones.")
    return first, second
