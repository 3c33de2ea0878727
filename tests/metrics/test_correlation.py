"""Correlations against SciPy, where it is installed, and against figures worked out by hand."""

import math

import numpy as np
import pytest

from keras_bert_zoo.metrics.correlation import pearson, spearman


def test_by_hand():
    assert pearson([1, 2, 3], [2, 4, 6]) == pytest.approx(1, abs=1e-15)
    assert pearson([1, 2, 3], [3, 2, 1]) == pytest.approx(-1, abs=1e-15)
    # Deviations -1 0 1 and -1 1 0: 1 / sqrt(2 * 2).
    assert pearson([1, 2, 3], [1, 3, 2]) == pytest.approx(0.5, abs=1e-15)
    assert spearman([1, 10, 100], [1, 2, 3]) == pytest.approx(1, abs=1e-15)
    # Ranks 1 2.5 2.5 4 and 1 2 3 4: 4.5 / sqrt(4.5 * 5).
    assert spearman([0, 5, 5, 9], [1, 2, 3, 4]) == pytest.approx(math.sqrt(0.9), abs=1e-15)


@pytest.mark.parametrize("ties", [False, True])
def test_against_scipy(ties):
    stats = pytest.importorskip("scipy.stats")
    random = np.random.default_rng(5)
    for size in (2, 3, 10, 1000):
        first = random.normal(size=size)
        second = 0.5 * first + random.normal(size=size) + 1e4
        if ties:
            first, second = np.round(first), np.round(second)
            if np.ptp(first) == 0 or np.ptp(second) == 0:
                continue
        assert pearson(first, second) == pytest.approx(stats.pearsonr(first, second)[0], abs=1e-12)
        expected = stats.spearmanr(first, second)[0]
        assert spearman(first, second) == pytest.approx(expected, abs=1e-12)


def test_a_constant_column_has_no_correlation():
    assert math.isnan(pearson([0.1, 0.1, 0.1], [1, 2, 3]))
    assert math.isnan(spearman([1, 2, 3], [7, 7, 7]))


@pytest.mark.parametrize(
    "first, second", [([1], [1]), ([1, 2], [1, 2, 3]), ([], []), ([[1, 2]], [[1, 2]])]
)
def test_columns_that_do_not_go_together(first, second):
    for function in (pearson, spearman):
        with pytest.raises(ValueError, match="two columns of the same length"):
            function(first, second)


def test_numbers_that_are_none():
    with pytest.raises(ValueError, match="finite"):
        spearman([1, float("nan")], [1, 2])
