"""The steps of AdamW, with and without bias correction, in every way that it is run."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bert_zoo as kbz


def to_numpy(x):
    return keras.ops.convert_to_numpy(x)


RANDOM = np.random.default_rng(0)
START = RANDOM.normal(size=(3, 4)).astype(np.float32)
# Some gradients are of epsilon's size, where it matters what it is added to.
GRADIENTS = (RANDOM.normal(size=(6, 3, 4)) * np.logspace(-7, 0, 12).reshape(3, 4)).astype(
    np.float32
)


def by_hand(correct, rates, decay=0.1, beta_1=0.8, beta_2=0.95, epsilon=1e-6):
    """Kingma & Ba's Adam, or without correction the one BERT was trained with, and decay."""
    w = START.astype(np.float64)
    m, v = np.zeros_like(w), np.zeros_like(w)
    for step, (gradient, rate) in enumerate(zip(GRADIENTS, rates, strict=True), start=1):
        m = beta_1 * m + (1 - beta_1) * gradient
        v = beta_2 * v + (1 - beta_2) * gradient.astype(np.float64) ** 2
        m_hat = m / (1 - beta_1**step) if correct else m
        v_hat = v / (1 - beta_2**step) if correct else v
        w = w - rate * (m_hat / (np.sqrt(v_hat) + epsilon) + decay * w)
    return w


@pytest.mark.parametrize("graph", [False, True], ids=["eager", "graph"])
@pytest.mark.parametrize("correct", [True, False], ids=["corrected", "original"])
def test_steps_equal_those_by_hand(correct, graph):
    optimizer = kbz.adamw(
        0.02,
        total_steps=12,
        warmup_steps=2,
        weight_decay=0.1,
        beta_1=0.8,
        beta_2=0.95,
        bias_correction=correct,
    )
    variable = keras.Variable(START, name="kernel")
    optimizer.build([variable])

    def step(gradient):
        optimizer.apply([gradient], [variable])

    step = tf.function(step) if graph else step
    for gradient in GRADIENTS:
        step(tf.constant(gradient))
    rates = [0, 0.01, 0.02, 0.018, 0.016, 0.014]
    expected = by_hand(correct, rates)
    np.testing.assert_allclose(to_numpy(variable), expected, atol=1e-6)
    assert np.abs(by_hand(not correct, rates) - expected).max() > 1e-3


@pytest.mark.parametrize("factor", [0.0, 0.25, 1.5])
@pytest.mark.parametrize("correct", [True, False], ids=["corrected", "original"])
def test_a_weights_own_rate_is_that_of_its_decay_too(correct, factor):
    first, second = (keras.Variable(START, name=name) for name in ("first", "second"))
    optimizer = kbz.adamw(
        0.02,
        total_steps=12,
        warmup_steps=2,
        weight_decay=0.1,
        beta_1=0.8,
        beta_2=0.95,
        bias_correction=correct,
        rate_multipliers={"first": factor},
    )
    optimizer.build([first, second])
    step = tf.function(lambda gradient: optimizer.apply([gradient] * 2, [first, second]))
    for gradient in GRADIENTS:
        step(tf.constant(gradient))
    rates = np.array([0, 0.01, 0.02, 0.018, 0.016, 0.014])
    np.testing.assert_allclose(to_numpy(first), by_hand(correct, rates * factor), atol=1e-6)
    np.testing.assert_allclose(to_numpy(second), by_hand(correct, rates), atol=1e-6)
    assert np.array_equal(to_numpy(first), START) == (factor == 0)


def test_the_first_step_without_correction_is_the_larger_one():
    """(1 - 0.9) / sqrt(1 - 0.999): the factor 3.16 that makes short fine-tunings unstable."""
    moved = {}
    for correct in (True, False):
        variable = keras.Variable([0.0], name="kernel")
        optimizer = kbz.AdamW(1.0, epsilon=1e-12, bias_correction=correct)
        optimizer.apply([tf.constant([0.5])], [variable])
        moved[correct] = -float(variable.value[0])
    assert moved[True] == pytest.approx(1, rel=1e-4)
    assert moved[False] == pytest.approx(0.1 / np.sqrt(0.001), rel=1e-4)


def test_the_defaults_are_berts():
    config = kbz.adamw(1e-4, total_steps=10).get_config()
    expected = {"beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-6, "weight_decay": 0.01}
    assert {key: config[key] for key in expected} == expected
    assert config["bias_correction"] is True
    for name in ("clipnorm", "global_clipnorm", "clipvalue"):
        assert config[name] is None


@pytest.mark.parametrize("correct", [True, False])
def test_serialization(correct):
    optimizer = kbz.adamw(
        0.02, total_steps=12, warmup_steps=2, weight_decay=0.3, bias_correction=correct
    )
    again = keras.optimizers.deserialize(keras.optimizers.serialize(optimizer))
    assert type(again) is kbz.AdamW
    assert again.bias_correction is correct
    assert again.get_config() == optimizer.get_config()
    assert float(again.learning_rate) == float(optimizer.learning_rate)


def test_a_resumed_optimizer_goes_on_where_it_stopped(tmp_path):
    """BC-X07's core: same rate, same moments, same weights as without the stop."""

    def make():
        variable = keras.Variable(START, name="kernel")
        optimizer = kbz.adamw(0.02, total_steps=6, warmup_steps=2)
        optimizer.build([variable])
        return variable, optimizer

    whole, optimizer = make()
    rates = []
    for gradient in GRADIENTS:
        rates.append(float(optimizer.learning_rate))
        optimizer.apply([tf.constant(gradient)], [whole])
    assert rates == pytest.approx([0, 0.01, 0.02, 0.015, 0.01, 0.005])

    first, optimizer = make()
    for gradient in GRADIENTS[:3]:
        optimizer.apply([tf.constant(gradient)], [first])
    store = {}
    optimizer.save_own_variables(store)
    second, resumed = make()
    second.assign(first)
    resumed.load_own_variables(store)
    assert int(resumed.iterations) == 3
    assert float(resumed.learning_rate) == pytest.approx(rates[3])
    for gradient in GRADIENTS[3:]:
        resumed.apply([tf.constant(gradient)], [second])
    np.testing.assert_array_equal(to_numpy(second), to_numpy(whole))
    assert int(resumed.iterations) == 6


def test_amsgrad_is_refused():
    with pytest.raises(ValueError, match="amsgrad"):
        kbz.AdamW(amsgrad=True)


@pytest.mark.parametrize("graph", [False, True], ids=["eager", "graph"])
@pytest.mark.parametrize("correct", [True, False], ids=["corrected", "original"])
def test_the_gradient_of_a_lookup_counts_each_row_it_hit(correct, graph):
    """Rows looked up twice get the sum, rows not looked up still decay and still move on."""
    ids = tf.constant([0, 2, 2])

    def train(lookup):
        table = keras.Variable(START, name="embeddings")
        optimizer = kbz.AdamW(0.02, weight_decay=0.1, bias_correction=correct)
        optimizer.build([table])

        def step(ids):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.square(lookup(table.value, ids)))
            optimizer.apply(tape.gradient(loss, [table.value]), [table])

        step = tf.function(step) if graph else step
        for ids_of_step in (ids, ids[:1], ids[:1]):
            step(ids_of_step)
        return to_numpy(table)

    sparse = train(tf.gather)
    dense = train(lambda table, ids: tf.one_hot(ids, 3) @ table)
    np.testing.assert_allclose(sparse, dense, atol=1e-6)
    assert np.abs(sparse - START).min() > 0


MIRRORED = """
import json
import numpy as np, tensorflow as tf
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
import keras
import keras_bert_zoo as kbz

random = np.random.default_rng(0)
start = random.normal(size=(3, 4)).astype("float32")
gradients = random.normal(size=(5, 3, 4)).astype("float32")

def train(strategy, correct):
    with strategy.scope():
        variables = [keras.Variable(start, name=name) for name in ("kernel", "bias")]
        optimizer = kbz.adamw(
            0.02, total_steps=9, warmup_steps=2, weight_decay=0.5, bias_correction=correct
        )
        optimizer.build(variables)
    count = strategy.num_replicas_in_sync

    @tf.function
    def step(gradient):
        # The optimizer sums over the replicas.
        strategy.run(lambda: optimizer.apply([gradient / count] * 2, variables))

    for gradient in gradients:
        step(tf.constant(gradient))
    copies = [
        value.numpy() for v in variables for value in strategy.experimental_local_results(v.value)
    ]
    return copies, int(strategy.experimental_local_results(optimizer.iterations.value)[0])

worst = 0.0
for correct in (True, False):
    one, _ = train(tf.distribute.get_strategy(), correct)
    two, steps = train(tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]), correct)
    assert len(one) == 2 and len(two) == 4 and steps == 5
    assert np.abs(one[0] - one[1]).max() > 1e-3  # One decays, the other does not.
    for index, value in enumerate(two):
        worst = max(worst, float(np.abs(value - one[index // 2]).max()))
print(json.dumps(worst))
"""


def test_two_replicas_step_like_one(run_python):
    assert json.loads(run_python(MIRRORED).splitlines()[-1]) <= 1e-6


@pytest.mark.parametrize("correct", [True, False], ids=["corrected", "original"])
def test_under_xla(correct):
    def train(jit):
        variable = keras.Variable(START, name="kernel")
        optimizer = kbz.adamw(0.02, total_steps=9, warmup_steps=2, bias_correction=correct)
        optimizer.build([variable])

        @tf.function(jit_compile=jit)
        def step(gradient):
            optimizer.apply([gradient], [variable])

        for gradient in GRADIENTS:
            step(tf.constant(gradient))
        return to_numpy(variable)

    np.testing.assert_allclose(train(True), train(False), atol=1e-6)


def test_half_precision_variables_are_refused():
    """In bfloat16 0.999 is 1, so the mean of squares would never move."""
    with pytest.raises(ValueError, match=r"kernel is bfloat16.*mixed_bfloat16"):
        kbz.AdamW().build([keras.Variable(START, name="kernel", dtype="bfloat16")])
