"""Learning rates that fall from layer to layer, in both optimizers."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from tiny import tiny_classifier

import keras_bert_zoo as kbz
from keras_bert_zoo.training.layer_rates import layer_rates


def test_factors_by_layer():
    task = tiny_classifier()  # Of two blocks.
    rates = layer_rates(task, 0.5)
    assert set(rates) == {weight.path for weight in task.trainable_weights}
    expected = {"embeddings/": 1 / 8, "block_0/": 1 / 4, "block_1/": 1 / 2}
    for path, rate in rates.items():
        right = [value for part, value in expected.items() if part in path]
        assert rate == (right[0] if right else 1), path
    assert {rates[path] for path in rates} == {1 / 8, 1 / 4, 1 / 2, 1}
    assert set(layer_rates(task, 1).values()) == {1}
    for wrong in (-0.1, 1.1):
        with pytest.raises(ValueError, match=f"Received: {wrong}"):
            layer_rates(task, wrong)
    with pytest.raises(ValueError, match="no weights in `block_"):
        layer_rates(keras.Sequential([keras.layers.Dense(1)], name="other"), 0.5)


def moved(make, multipliers, gradient):
    start = np.full((2, 3), 2.0, "float32")
    variables = [keras.Variable(start, name=name) for name in ("first", "second", "third")]
    optimizer = make(0.1, weight_decay=0.2, rate_multipliers=multipliers)
    optimizer.build(variables)
    step = tf.function(lambda: optimizer.apply([tf.fill([2, 3], gradient)] * 3, variables))
    step()
    again = type(optimizer).from_config(optimizer.get_config())
    assert again.rate_multipliers == multipliers
    return [float(start[0, 0] - keras.ops.convert_to_numpy(v)[0, 0]) for v in variables]


@pytest.mark.parametrize("make", [kbz.AdamW, kbz.Lamb])
@pytest.mark.parametrize("gradient", [0.0, 0.7])
def test_each_weight_moves_by_its_own_rate(make, gradient):
    """Without a gradient what moves a weight is the decay."""
    plain = moved(make, None, gradient)
    found = moved(make, {"first": 0.0, "second": 0.5}, gradient)
    assert plain[0] > 0.01
    # AdamW decays first and then steps, both by the same factor.
    np.testing.assert_allclose(found, np.array([0, 0.5, 1]) * plain, rtol=1e-5)


@pytest.mark.parametrize("make", [kbz.AdamW, kbz.Lamb])
def test_refusals(make):
    with pytest.raises(ValueError, match="from 0 on.*'first': -1"):
        make(rate_multipliers={"first": -1})
    optimizer = make(rate_multipliers={"frist": 0.5})
    with pytest.raises(ValueError, match="no weight: frist.*first"):
        optimizer.build([keras.Variable(np.zeros(2), name="first")])


def test_a_task_learns_with_them():
    task = tiny_classifier()
    before = {weight.path: keras.ops.convert_to_numpy(weight) for weight in task.trainable_weights}
    rates = layer_rates(task, 0.0)  # All below the pooler stands still.
    task.compile(kbz.adamw(0.01, 10, rate_multipliers=rates), clip_norm=1.0)
    task.fit(["good film", "bad film"], ["good", "bad"], epochs=2, verbose=0)
    for weight in task.trainable_weights:
        stood = np.array_equal(before[weight.path], keras.ops.convert_to_numpy(weight))
        assert stood == ("embeddings/" in weight.path or "block_" in weight.path), weight.path
