"""Packing of one and two sequences, and longest-first truncation."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert_zoo.text.packing import Packer, truncated_lengths

CLS, SEP, PAD = 101, 102, 7


def one_at_a_time(first, second, budget):
    """Lengths after truncation as google-research/bert describes it."""
    while first + second > budget:
        if first > second:
            first -= 1
        else:
            second -= 1
    return first, second


@pytest.mark.parametrize(
    ("lengths", "budget", "expected"),
    [
        ((0, 20), 10, (0, 10)),
        ((20, 0), 10, (10, 0)),
        ((3, 20), 10, (3, 7)),
        ((10, 4), 8, (4, 4)),
        ((6, 5), 7, (4, 3)),
        ((5, 6), 7, (4, 3)),
        ((20, 20), 1, (1, 0)),
        ((20, 20), 0, (0, 0)),
    ],
)
def test_truncation_cases(lengths, budget, expected):  # BC-P02
    first, second = (list(range(1000, 1000 + n)) for n in lengths)
    packed = Packer(budget + 3, CLS, SEP, PAD)([first], [second])
    row = [CLS, *first[: expected[0]], SEP, *second[: expected[1]], SEP]
    assert packed["token_ids"].numpy().tolist() == [row]


def test_truncation_against_one_at_a_time():
    draw = np.random.default_rng(0)
    for _ in range(200):
        first, second = draw.integers(0, 40, (2, 50))
        budget = int(draw.integers(0, 60))
        expected = [one_at_a_time(*pair, budget) for pair in zip(first, second, strict=True)]
        actual = truncated_lengths(tf.constant(first), tf.constant(second), budget)
        assert np.stack(actual, 1).tolist() == [list(pair) for pair in expected]


@pytest.mark.parametrize("padding", ["max_length", "longest"])
@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("length", [3, 4, 11, 64])
def test_rows_against_lists(padding, pairs, length):
    draw = np.random.default_rng(length)
    texts = [
        [draw.integers(1000, 2000, draw.integers(0, 12)).tolist() for _ in range(40)]
        for _ in range(2)
    ]
    rows = []
    for first, second in zip(*texts, strict=True):
        if pairs:
            a, b = one_at_a_time(len(first), len(second), length - 3)
            parts = [CLS, *first[:a], SEP], [*second[:b], SEP]
        else:
            parts = [CLS, *first[: length - 2], SEP], []
        rows.append(parts)
    width = length if padding == "max_length" else max(len(a) + len(b) for a, b in rows)
    expected = {
        "token_ids": [(a + b + [PAD] * width)[:width] for a, b in rows],
        "segment_ids": [([0] * len(a) + [1] * len(b) + [0] * width)[:width] for a, b in rows],
        "padding_mask": [([1] * len(a + b) + [0] * width)[:width] for a, b in rows],
    }
    packer = Packer(length, CLS, SEP, PAD, padding)
    ragged = [tf.ragged.constant(x, dtype=tf.int64, ragged_rank=1) for x in texts[: 1 + pairs]]
    for packed in (packer(*texts[: 1 + pairs]), packer(*ragged)):
        assert {name: tensor.numpy().tolist() for name, tensor in packed.items()} == expected
        assert all(tensor.dtype == tf.int32 for tensor in packed.values())
    # One row alone gives what it gives in the batch.
    single = Packer(length, CLS, SEP, PAD)(*(x[0] for x in texts[: 1 + pairs]))
    first_row = rows[0][0] + rows[0][1]
    assert single["token_ids"].numpy().tolist() == first_row + [PAD] * (length - len(first_row))
    traced = tf.function(lambda *x: packer(*x))(*ragged)
    assert traced["token_ids"].numpy().tolist() == expected["token_ids"]


def test_dense_and_empty_inputs():
    packer = Packer(6, CLS, SEP, PAD)
    dense = packer(np.array([[1, 2], [3, 4]]), tf.constant([[5], [6]]))
    assert dense["token_ids"].numpy().tolist() == [
        [CLS, 1, 2, SEP, 5, SEP],
        [CLS, 3, 4, SEP, 6, SEP],
    ]
    empty = tf.RaggedTensor.from_row_lengths(tf.constant([], tf.int32), tf.constant([], tf.int64))
    for padding, width in (("max_length", 6), ("longest", 2)):
        packed = Packer(6, CLS, SEP, PAD, padding)(empty)
        assert packed["token_ids"].shape == (0, width)


def test_static_shape():
    spec = tf.RaggedTensorSpec([None, None], tf.int32)
    packed = tf.function(Packer(9, CLS, SEP), input_signature=[spec]).get_concrete_function()
    assert {n: s.as_list() for n, s in packed.output_shapes.items()} == {
        name: [None, 9] for name in ("token_ids", "segment_ids", "padding_mask")
    }


def test_lengths_that_cannot_hold_the_special_tokens():
    with pytest.raises(ValueError, match=r"at least 2 .* a text, received 1"):
        Packer(1, CLS, SEP)
    packer = Packer(2, CLS, SEP)
    assert packer([[5]])["token_ids"].numpy().tolist() == [[CLS, SEP]]
    with pytest.raises(ValueError, match=r"at least 3 .* a pair of texts, received 2"):
        packer([[5]], [[6]])
    with pytest.raises(ValueError, match=r"at least 3"):
        packer.compute_output_spec(*[keras.KerasTensor((None, None), "int32")] * 2)
    with pytest.raises(ValueError, match=r"padding must be one of .*'shortest'"):
        Packer(5, CLS, SEP, padding="shortest")


@pytest.mark.parametrize("bad", [tf.constant(3), tf.constant([1.5]), tf.zeros([1, 2, 3], tf.int32)])
def test_wrong_inputs(bad):
    with pytest.raises(ValueError, match="integer ids of shape"):
        Packer(5, CLS, SEP)(bad)


def test_config_round_trip():
    packer = Packer(9, CLS, SEP, PAD, "longest", name="pack")
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(packer))
    assert again.get_config() == packer.get_config()
    assert again([[1]])["token_ids"].numpy().tolist() == [[CLS, 1, SEP]]


def test_another_number_of_second_texts_is_refused():
    packer = Packer(8, 2, 3)
    graph = tf.function(
        lambda a, b: packer(a, b)["token_ids"],
        input_signature=[tf.RaggedTensorSpec((None, None), tf.int32)] * 2,
    )
    first, second = tf.ragged.constant([[5], [6]]), tf.ragged.constant([[7]])
    for pack in (packer, graph):
        with pytest.raises(tf.errors.InvalidArgumentError, match="one second text"):
            pack(first, second)
