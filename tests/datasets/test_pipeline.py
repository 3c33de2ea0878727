"""Batches hold every example once, in an order of their own, with little padding."""

import numpy as np
import pytest
import tensorflow as tf
from tiny import WORDS, tiny_classifier, tiny_preprocessor

import keras_bert_zoo as kbz
from keras_bert_zoo.datasets.pipeline import EncodedExamples, encode

COUNT = 301


def texts(count=COUNT, seed=0):
    random = np.random.default_rng(seed)
    return [" ".join(random.choice(WORDS, random.integers(1, 20))) for _ in range(count)]


@pytest.fixture(scope="module")
def examples():
    return encode(tiny_preprocessor(24), texts(), np.arange(COUNT), np.arange(COUNT) / 7)


def rows(dataset):
    """All rows of a dataset by their number: ids without padding, and weight."""
    found = {}
    for x, y, weight in dataset:
        for number, ids, mask, w in zip(
            y.numpy(),
            x["token_ids"].numpy(),
            x["padding_mask"].numpy(),
            weight.numpy(),
            strict=True,
        ):
            assert number not in found
            found[int(number)] = (ids[: mask.sum()].tolist(), float(w))
            assert not mask[mask.sum() :].any()
    return found


def test_every_example_once_and_whole(examples):
    ids = tiny_preprocessor(24)(texts())
    expected = {
        n: (row[: mask.sum()].tolist(), float(np.float32(n / 7)))
        for n, (row, mask) in enumerate(
            zip(ids["token_ids"].numpy(), ids["padding_mask"].numpy(), strict=True)
        )
    }
    for size in (1, 7, 16, COUNT, 1000):
        for dataset in (examples.training_batches(size), examples.evaluation_batches(size)):
            assert int(dataset.cardinality()) == -(-COUNT // size)
            if size in (7, 16):
                assert len(list(dataset)) == -(-COUNT // size)
            found = rows(dataset)
            assert {n: row for n, (row, _) in found.items()} == {
                n: row for n, (row, _) in expected.items()
            }
            assert all(found[n][1] == pytest.approx(expected[n][1]) for n in expected)


def order(dataset):
    return [int(n) for _, y, _ in dataset for n in y]


def test_orders(examples):
    dataset = examples.training_batches(8, seed=3)
    first, second = order(dataset), order(dataset)
    assert first != second
    assert sorted(first) == sorted(second) == list(range(COUNT))
    again = examples.training_batches(8, seed=3)
    assert order(again) == first
    assert order(examples.training_batches(8, seed=4)) != first
    expected = examples.evaluation_order.tolist()
    assert order(examples.evaluation_batches(8)) == expected
    assert (np.diff(examples.lengths[expected]) <= 0).all()


def test_rows_of_like_length_go_together(examples):
    lengths = examples.lengths
    assert lengths.min() == 3 and lengths.max() == 21
    share = examples.padding_share(16)
    mean = np.ceil(lengths.max() / 8) * 8
    assert share < 0.3 < 0.4 < 1 - lengths.mean() / mean
    for x, *_ in examples.training_batches(16):
        longest = int(x["padding_mask"].numpy().sum(1).max())
        assert x["token_ids"].shape[1] == min(-(-longest // 8) * 8, lengths.max())


def test_batches_come_in_no_order_of_length(examples):
    widths = [x["token_ids"].shape[1] for x, *_ in examples.training_batches(8)]
    assert widths != sorted(widths) and widths != sorted(widths, reverse=True)


def test_a_fixed_length():
    examples = encode(tiny_preprocessor(24), texts(5), length=24)
    for dataset in (examples.training_batches(2), examples.evaluation_batches(2)):
        (spec,) = dataset.element_spec
        assert spec["token_ids"].shape.as_list() == [None, 24]
        assert all(x["token_ids"].shape[1] == 24 for (x,) in dataset)


def test_one_label_a_token():
    labels = tf.ragged.constant([[1, 2, 3], [4], [5, 6]], dtype=tf.int32)
    ids = tf.ragged.constant([[2, 9, 3], [2], [2, 3]], dtype=tf.int32)
    examples = EncodedExamples({"token_ids": ids, "padding_mask": tf.ones_like(ids)}, labels)
    ((x, y),) = list(examples.evaluation_batches(3))
    assert y[:, :3].numpy().tolist() == [[1, 2, 3], [5, 6, -1], [4, -1, -1]]
    assert y.shape == x["token_ids"].shape == (3, 3)


def test_several_rows_an_example():
    preprocessor = tiny_preprocessor(16)

    def read(columns):
        first, choices = columns
        flat = preprocessor(
            (
                [a for a, c in zip(first, choices, strict=True) for _ in c],
                [b for c in choices for b in c],
            )
        )
        return {name: tf.reshape(t, [len(first), 2, -1]) for name, t in flat.items()}

    choices = np.empty(3, object)
    choices[:] = [["tea", "cup of tea"], ["film", "a"], ["the", "good good good"]]
    examples = encode(read, (["what", "good film", "is"], choices), np.array([0, 1, 0]))
    assert examples.lengths.tolist() == [7, 6, 7]
    ((x, y),) = list(examples.evaluation_batches(3))
    assert x["token_ids"].shape == (3, 2, 7)
    assert y.numpy().tolist() == [0, 0, 1]
    whole = read((["what", "is", "good film"], [choices[0].copy(), choices[2], choices[1]]))
    assert np.array_equal(x["token_ids"], whole["token_ids"][..., :7])


def test_outputs_belong_to_their_examples(examples):
    task = tiny_classifier()
    given = texts()
    bare = encode(task.read_texts, given)
    logits = np.zeros((COUNT, 2), np.float32)
    for numbers, outputs in bare.outputs(task, 16, verbose=0):
        logits[numbers] = outputs
    assert np.allclose(logits, task.predict(given, verbose=0), atol=1e-5)
    for weight in task.trainable_weights:
        weight.assign(weight * 1.5)
    for numbers, outputs in bare.outputs(task, 16, verbose=0):
        logits[numbers] = outputs
    assert np.allclose(logits, task.predict(given, verbose=0), atol=1e-5)


def test_fit_takes_them():
    task = tiny_classifier()
    task.compile(kbz.adamw(1e-3, total_steps=10))
    examples = encode(task.read_texts, texts(20), np.arange(20) % 2)
    history = task.fit(examples.training_batches(8), epochs=2, verbose=0).history
    assert len(history["loss"]) == 2
    whole = task.evaluate(texts(20), np.arange(20) % 2, verbose=0, return_dict=True)
    parts = task.evaluate(examples.evaluation_batches(3), verbose=0, return_dict=True)
    assert parts["loss"] == pytest.approx(whole["loss"], rel=1e-4)


@pytest.mark.parametrize(
    "columns, targets, weights",
    [
        ([], None, None),
        (["a"], [1, 2], None),
        (["a", "b"], [1, 2], [1.0]),
        ((["a"], []), None, None),
    ],
)
def test_columns_that_differ_in_number(columns, targets, weights):
    with pytest.raises(ValueError, match="equally many"):
        encode(tiny_preprocessor(24), columns, targets, weights)
