"""Which weights decay, shown by steps whose gradients are zero, and by how much."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from tiny import tiny_encoder

import keras_bert_zoo as kbz


def to_numpy(x):
    return keras.ops.convert_to_numpy(x)


def zero_gradient_step(optimizer, variables):
    """What one step without gradients makes of each variable, as a factor."""
    before = [to_numpy(variable).copy() for variable in variables]
    optimizer.apply([tf.zeros_like(value) for value in before], variables)
    return {
        variable.path: float((to_numpy(variable) / value).mean())
        for variable, value in zip(variables, before, strict=True)
    }


@pytest.fixture(scope="module")
def task():
    return kbz.Pretraining(tiny_encoder())


def fill(variables):
    """No variable is zero, so that each shows whether it decays."""
    for variable in variables:
        variable.assign(np.full(variable.shape, 2.0))


@pytest.mark.parametrize("bias_correction", [True, False])
def test_a_zero_gradient_step_shows_what_decays_in_a_real_task(task, bias_correction):
    variables = task.trainable_variables
    fill(variables)
    optimizer = kbz.adamw(0.5, total_steps=10, weight_decay=0.2, bias_correction=bias_correction)
    factors = zero_gradient_step(optimizer, variables)
    decayed = {path for path, factor in factors.items() if factor == pytest.approx(0.9)}
    spared = {path for path, factor in factors.items() if factor == 1}
    assert decayed | spared == factors.keys()

    def ends(paths):
        return {path.split("/")[-1] for path in paths}

    assert ends(decayed) == {"kernel", "embeddings", "position_table", "segment_table"}
    assert ends(spared) == {"bias", "gamma", "beta"}
    assert {path for path in factors if "norm" in path} <= spared
    assert {path for path in factors if path.endswith("bias")} <= spared
    for path in (
        "token_embedding/embeddings",
        "block_1/attention/query_key_value/kernel",
        "block_0/intermediate/kernel",
        "pooler/dense/kernel",
        "masked_lm_transform/dense/kernel",
        "next_sentence_logits/kernel",
    ):
        assert path in decayed
    for path in ("masked_lm_bias/bias", "embeddings/layer_norm/gamma", "block_1/output_norm/beta"):
        assert path in spared


def test_decay_is_off_in_a_task_that_was_loaded(tmp_path):
    """A loaded optimizer must know again what it spares."""
    task = kbz.TextClassifier(tiny_encoder(), labels=["a", "b"])
    task.compile(kbz.adamw(0.5, total_steps=10, weight_decay=0.2))
    task.optimizer.build(task.trainable_variables)
    task.save(tmp_path / "task.keras")
    again = keras.models.load_model(tmp_path / "task.keras")
    fill(again.trainable_variables)
    factors = zero_gradient_step(again.optimizer, again.trainable_variables)
    for path, factor in factors.items():
        spared = path.split("/")[-1] in ("bias", "gamma", "beta")
        assert factor == pytest.approx(1.0 if spared else 0.9), path


@pytest.mark.parametrize(
    "exclusion",
    [lambda table: {"var_list": [table]}, lambda table: {"var_names": ["tab"]}],
    ids=["variable", "name"],
)
def test_a_users_own_exclusion_is_kept(exclusion):
    kernel, table, bias = (keras.Variable([2.0], name=name) for name in ("kernel", "table", "bias"))
    optimizer = kbz.AdamW(0.5, weight_decay=0.2)
    optimizer.exclude_from_weight_decay(**exclusion(table))
    factors = zero_gradient_step(optimizer, [kernel, table, bias])
    assert factors == pytest.approx({"kernel": 0.9, "table": 1.0, "bias": 1.0})


def test_decay_uses_the_scheduled_rate():
    """Each step shrinks by rate x decay, with the rate of that very step."""
    variable = keras.Variable([1.0], name="kernel")
    optimizer = kbz.adamw(0.5, total_steps=6, warmup_steps=2, weight_decay=0.1)
    rates, value = [0, 0.25, 0.5, 0.375, 0.25, 0.125, 0], 1.0
    for rate in rates:
        optimizer.apply([tf.zeros(1)], [variable])
        value *= 1 - rate * 0.1
        assert float(variable.value[0]) == pytest.approx(value, rel=1e-6)
