"""Draws that depend on their key alone: equal to a plain reimplementation, and random."""

import collections
import itertools
import math

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_zoo.text.keyed_random import keyed_integers, keyed_permutation, keyed_uniform

EXAMPLES = tf.range(5000, dtype=tf.int64)


def split_mix(state):
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) % 2**64
    return state ^ (state >> 31)


def chi_square(values, cells):
    """Per degree of freedom: about 1 for draws that are uniform over the cells."""
    expected = len(values) / cells
    counts = np.bincount(values, minlength=cells)
    return ((counts - expected) ** 2 / expected).sum() / (cells - 1)


@pytest.mark.parametrize("seed", [0, 7, -1, 2**70 + 3])
def test_integers_are_splitmix64_of_the_key(seed):
    golden = 0x9E3779B97F4A7C15
    drawn = keyed_integers(seed, tf.constant(3, tf.int64), tf.constant([0, 9], tf.int64), 5, 4)
    for row, example in enumerate((0, 9)):
        state = split_mix(seed % 2**64)
        for part in (3, example, 5):
            state = split_mix((state + golden * (part + 1)) % 2**64)
        for position in range(4):
            bits = split_mix((state + golden * (position + 1)) % 2**64)
            assert int(drawn[row, position]) == bits >> 1
    assert drawn.dtype == tf.int64


def test_draws_are_uniform_and_unrelated_between_neighbours():
    base = keyed_uniform(7, 0, EXAMPLES, 0, 64).numpy()
    assert base.min() >= 0 and base.max() < 1
    assert 0.8 < chi_square((base.ravel() * 1000).astype(int), 1000) < 1.2
    others = {
        "position": (base[:, :-1], base[:, 1:]),
        "example": (base[:-1], base[1:]),
        "epoch": (base, keyed_uniform(7, 1, EXAMPLES, 0, 64).numpy()),
        "seed": (base, keyed_uniform(8, 0, EXAMPLES, 0, 64).numpy()),
        "stream": (base, keyed_uniform(7, 0, EXAMPLES, 1, 64).numpy()),
    }
    for name, (left, right) in others.items():
        cell = (left * 16).astype(int) * 16 + (right * 16).astype(int)
        assert 0.7 < chi_square(cell.ravel(), 256) < 1.4, name


def test_epoch_may_differ_by_row():
    epochs = tf.constant([4, 5], tf.int64)
    both = keyed_integers(1, epochs, tf.constant([2, 2], tf.int64), 0, 3).numpy()
    for row, epoch in enumerate((4, 5)):
        alone = keyed_integers(1, epoch, tf.constant([2], tf.int64), 0, 3).numpy()
        np.testing.assert_array_equal(both[row], alone[0])


@pytest.mark.parametrize("size", [1, 2, 3, 100, 4097])
def test_permutation_is_one(size):
    order = keyed_permutation(3, 8, tf.range(size, dtype=tf.int64), 0, size).numpy()
    np.testing.assert_array_equal(np.sort(order), np.arange(size))


def test_every_order_is_equally_likely():
    epochs = 2400
    index = tf.tile(tf.range(4, dtype=tf.int64), [epochs])
    order = keyed_permutation(3, tf.repeat(tf.range(epochs, dtype=tf.int64), 4), index, 0, 4)
    counts = collections.Counter(map(tuple, order.numpy().reshape(-1, 4).tolist()))
    assert len(counts) == math.factorial(4)
    assert max(abs(n - epochs / 24) for n in counts.values()) < 5 * (epochs / 24) ** 0.5


def test_orders_of_neighbouring_epochs_are_unrelated():
    size = 70_001
    index = tf.range(size, dtype=tf.int64)
    orders = [keyed_permutation(3, epoch, index, 0, size).numpy() for epoch in range(6)]
    for first, second in itertools.pairwise(orders):
        assert abs(np.corrcoef(first, second)[0, 1]) < 5 / size**0.5
        assert abs(np.corrcoef(first % 2, second % 2)[0, 1]) < 5 / size**0.5
        assert abs(np.corrcoef(first[:-1], first[1:])[0, 1]) < 5 / size**0.5
