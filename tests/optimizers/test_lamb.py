"""LAMB against the formulas of its paper, in numpy."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from tiny import tiny_classifier

import keras_bert_zoo as kbz
from keras_bert_zoo.optimizers.lamb import Lamb
from keras_bert_zoo.optimizers.schedules import WarmupLinear

BETA_1, BETA_2, EPSILON, DECAY = 0.9, 0.999, 1e-6, 0.1


def by_the_paper(start, gradients, rates, spared, corrected=True):
    """Algorithm 2 of arXiv 1904.00962 in float64."""
    w, m, v = start.astype(np.float64), 0.0, 0.0
    for t, (g, rate) in enumerate(zip(gradients, rates, strict=True), 1):
        g = g.astype(np.float64)
        m = BETA_1 * m + (1 - BETA_1) * g
        v = BETA_2 * v + (1 - BETA_2) * g**2
        m_hat, v_hat = (m / (1 - BETA_1**t), v / (1 - BETA_2**t)) if corrected else (m, v)
        u = m_hat / (np.sqrt(v_hat) + EPSILON) + (0 if spared else DECAY) * w
        norms = np.linalg.norm(w), np.linalg.norm(u)
        ratio = 1.0 if spared or 0 in norms else norms[0] / norms[1]
        w = w - rate * ratio * u
    return w


def trained(optimizer, start, gradients, name, graph=True):
    variable = keras.Variable(start, name=name)
    optimizer.build([variable])
    step = tf.function(lambda g: optimizer.apply([g], [variable])) if graph else None
    for gradient in gradients:
        step(tf.constant(gradient)) if graph else optimizer.apply([gradient], [variable])
    return keras.ops.convert_to_numpy(variable)


@pytest.mark.parametrize("corrected", [True, False])
@pytest.mark.parametrize("name", ["kernel", "bias", "gamma", "beta"])
def test_twenty_steps_are_the_papers(name, corrected):
    rng = np.random.default_rng(0)
    start = rng.normal(size=(4, 3)).astype("float32")
    gradients = rng.normal(size=(20, 4, 3)).astype("float32") * 10.0 ** rng.integers(-4, 2, 20)[
        :, None, None
    ].astype("float32")
    schedule = WarmupLinear(0.05, 30, 5)
    rates = [float(schedule(step)) for step in range(20)]
    expected = by_the_paper(start, gradients, rates, name != "kernel", corrected)
    optimizer = Lamb(schedule, DECAY, BETA_1, BETA_2, EPSILON, corrected)
    found = trained(optimizer, start, gradients, name)
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-6)
    assert np.abs(found - start).max() > 0.01
    theirs = keras.optimizers.Lamb(
        schedule, BETA_1, BETA_2, EPSILON, weight_decay=DECAY if name == "kernel" else None
    )
    if name == "kernel":  # Keras's has the decay outside of the ratio.
        other = trained(theirs, start, gradients, name)
        assert np.abs(other - expected).max() > 1e-3


@pytest.mark.parametrize("multipliers", [None, {"kernel": 0.5, "gamma": 0.25, "beta": 0.0}])
def test_weights_of_every_kind_at_once(multipliers):
    """With steps without gradients, at the start and in between, and with a weight of zeros."""
    rng = np.random.default_rng(1)
    shapes = {"kernel": (4, 3), "zeros": (2, 3), "bias": (3,), "gamma": (3,), "beta": (3,)}
    starts = {name: rng.normal(size=shape).astype("float32") for name, shape in shapes.items()}
    starts["zeros"][:] = 0
    gradients = {name: rng.normal(size=(20, *shape)) for name, shape in shapes.items()}
    gradients = {name: value.astype("float32") for name, value in gradients.items()}
    for value in gradients.values():
        value[[0, 1, 9, 19]] = 0
    variables = [keras.Variable(start, name=name) for name, start in starts.items()]
    schedule = WarmupLinear(0.05, 30, 5)
    optimizer = Lamb(schedule, DECAY, BETA_1, BETA_2, EPSILON, rate_multipliers=multipliers)
    optimizer.build(variables)
    step = tf.function(lambda gradients: optimizer.apply(gradients, variables))
    for t in range(20):
        step([tf.constant(value[t]) for value in gradients.values()])
        if t == 1:  # Nothing but the decay has moved a weight so far.
            same = {v.path for v in variables if np.array_equal(v.numpy(), starts[v.path])}
            assert same == {"zeros", "bias", "gamma", "beta"}
    rates = np.array([float(schedule(t)) for t in range(20)])
    for variable in variables:
        name = variable.path
        factor = (multipliers or {}).get(name, 1.0)
        spared = name in ("bias", "gamma", "beta")
        expected = by_the_paper(starts[name], gradients[name], rates * factor, spared)
        np.testing.assert_allclose(variable.numpy(), expected, rtol=2e-5, atol=2e-6)
        assert (np.abs(expected - starts[name]).max() > 0.01) == (factor > 0)


def test_the_norms_are_each_weights_own():
    """Beside a weight a thousand times as large, another moves as it does alone."""
    rng = np.random.default_rng(2)
    start = rng.normal(size=(4, 3)).astype("float32")
    gradients = rng.normal(size=(5, 4, 3)).astype("float32")
    alone = trained(Lamb(0.05, DECAY), start, gradients, "kernel")
    small, large = keras.Variable(start, name="small"), keras.Variable(start * 1000, name="large")
    optimizer = Lamb(0.05, DECAY)
    for gradient in gradients:
        optimizer.apply([tf.constant(gradient)] * 2, [small, large])
    np.testing.assert_allclose(small.numpy(), alone, rtol=1e-6)


@pytest.mark.parametrize(
    "exclusion",
    [lambda table: {"var_list": [table]}, lambda table: {"var_names": ["tab"]}],
    ids=["variable", "name"],
)
def test_a_users_own_exclusion_is_out_of_the_decay_and_the_ratio(exclusion):
    start = np.full((2, 2), 2.0, "float32")
    gradients = np.random.default_rng(3).normal(size=(4, 2, 2)).astype("float32")
    kernel, table = (keras.Variable(start, name=name) for name in ("kernel", "table"))
    optimizer = Lamb(0.1, DECAY)
    optimizer.exclude_from_weight_decay(**exclusion(table))
    for gradient in gradients:
        optimizer.apply([tf.constant(gradient)] * 2, [kernel, table])
    for variable, spared in ((kernel, False), (table, True)):
        expected = by_the_paper(start, gradients, [0.1] * 4, spared)
        np.testing.assert_allclose(variable.numpy(), expected, rtol=2e-5)


@pytest.mark.parametrize("graph", [False, True], ids=["eager", "graph"])
def test_the_gradient_of_a_lookup_counts_each_row_it_hit(graph):
    def train(lookup):
        table = keras.Variable(np.arange(1, 13, dtype="float32").reshape(3, 4), name="embeddings")
        optimizer = Lamb(0.02, DECAY)
        optimizer.build([table])

        def step(ids):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.square(lookup(table.value, ids)))
            optimizer.apply(tape.gradient(loss, [table.value]), [table])

        step = tf.function(step) if graph else step
        for ids in ([0, 2, 2], [0, 0, 1]):
            step(tf.constant(ids))
        return table.numpy()

    sparse = train(tf.gather)
    dense = train(lambda table, ids: tf.one_hot(ids, 3) @ table)
    np.testing.assert_allclose(sparse, dense, rtol=1e-6)


def test_under_xla_and_in_accumulated_steps():
    rng = np.random.default_rng(4)
    start = rng.normal(size=(4, 3)).astype("float32")
    gradients = rng.normal(size=(6, 4, 3)).astype("float32")

    def train(jit=False, **more):
        variable = keras.Variable(start, name="kernel")
        optimizer = Lamb(0.05, DECAY, **more)
        optimizer.build([variable])
        step = tf.function(lambda g: optimizer.apply([g], [variable]), jit_compile=jit)
        for gradient in gradients:
            step(tf.constant(gradient))
        return variable.numpy()

    np.testing.assert_allclose(train(jit=True), train(), atol=1e-6)
    halves = by_the_paper(start, (gradients[::2] + gradients[1::2]) / 2, [0.05] * 3, False)
    np.testing.assert_allclose(train(gradient_accumulation_steps=2), halves, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("decay", [0.0, None])
def test_without_decay_the_ratio_is_still_there(decay):
    start, gradient = np.full((2, 2), 2.0, "float32"), np.ones((1, 2, 2), "float32")
    np.testing.assert_allclose(trained(Lamb(0.1, decay), start, gradient, "kernel"), 1.8, rtol=1e-5)
    np.testing.assert_allclose(trained(Lamb(0.1, decay), start, gradient, "bias"), 1.9, rtol=1e-5)


def test_a_step_without_gradient_decays_what_is_not_spared():
    start = np.full((2, 2), 2.0, "float32")
    zero = np.zeros((1, 2, 2), "float32")
    # The update is the decay alone, whose ratio makes it as long as the weight.
    np.testing.assert_allclose(
        trained(Lamb(0.1, DECAY), start, zero, "kernel"), start * 0.9, rtol=1e-6
    )
    for name in ("bias", "beta", "gamma"):
        np.testing.assert_array_equal(trained(Lamb(0.1, DECAY), start, zero, name), start)


def test_a_weight_of_zeros_moves_as_by_adam():
    start = np.zeros((2, 2), "float32")
    gradient = np.ones((1, 2, 2), "float32")
    for graph in (True, False):
        found = trained(Lamb(0.1, DECAY), start, gradient, "kernel", graph)
        np.testing.assert_allclose(found, -0.1, rtol=1e-5)
        assert not trained(Lamb(0.1, DECAY), start, gradient * 0, "kernel", graph).any()


GO_ON = """
import sys
import keras, numpy as np, tensorflow as tf
import keras_bert_zoo

task = keras.saving.load_model(sys.argv[1])
optimizer, weights = task.optimizer, task.trainable_variables
assert optimizer.decay_rate == 0.01 and optimizer.weight_decay is None
state = [keras.ops.convert_to_numpy(v) for v in optimizer.variables]
optimizer.apply([tf.fill(w.shape, 0.1) for w in weights], weights)
after = [keras.ops.convert_to_numpy(w) for w in weights]
np.savez(sys.argv[2], *state, *after)
"""


def test_it_trains_and_goes_on_from_a_file(tmp_path, run_python):
    keras.utils.set_random_seed(0)
    task = tiny_classifier(
        initializer_range=0.3, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
    )
    rates = {"token_embedding/embeddings": 0.5, "embeddings/position_table": 0.0}
    task.compile(Lamb(WarmupLinear(0.03, 50, 4), rate_multipliers=rates), clip_norm=1.0)
    texts, labels = ["good film", "bad film"] * 8, ["good", "bad"] * 8
    losses = task.fit(texts, labels, batch_size=4, epochs=10, verbose=0).history["loss"]
    assert losses[-1] < losses[0] / 2
    task.save(tmp_path / "task.keras")
    run_python(GO_ON, tmp_path / "task.keras", tmp_path / "found.npz")
    expected = [keras.ops.convert_to_numpy(v) for v in task.optimizer.variables]
    weights = task.trainable_variables
    before = [keras.ops.convert_to_numpy(w) for w in weights]
    task.optimizer.apply([tf.fill(w.shape, 0.1) for w in weights], weights)
    expected += [keras.ops.convert_to_numpy(w) for w in weights]
    with np.load(tmp_path / "found.npz") as file:
        for name, value in zip(file.files, expected, strict=True):
            np.testing.assert_array_equal(file[name], value)
    for weight, start in zip(weights, before, strict=True):
        stood = np.array_equal(start, keras.ops.convert_to_numpy(weight))
        assert stood == (weight.path == "embeddings/position_table"), weight.path


MIRRORED = """
import json
import numpy as np, tensorflow as tf
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
import keras
import keras_bert_zoo as kbz

NAMES = ("kernel", "table", "bias")
random = np.random.default_rng(0)
start = random.normal(size=(3, 4)).astype("float32")
gradients = random.normal(size=(5, 3, 4)).astype("float32")

def train(strategy, make):
    with strategy.scope():
        variables = [keras.Variable(start, name=name) for name in NAMES]
        rate = kbz.WarmupLinear(0.1, total_steps=9, warmup_steps=2)
        optimizer = make(rate, weight_decay=0.5, rate_multipliers={"table": 0.5})
        optimizer.build(variables)
    count = strategy.num_replicas_in_sync

    @tf.function
    def step(gradient):
        def one():
            # The replicas' gradients differ, and the optimizer sums them.
            number = tf.distribute.get_replica_context().replica_id_in_sync_group
            part = 1.0 if count == 1 else 0.25 + 0.5 * tf.cast(number, "float32")
            optimizer.apply([gradient * part] * 3, variables)

        strategy.run(one)

    for gradient in gradients:
        step(tf.constant(gradient))
    return [
        [value.numpy() for value in strategy.experimental_local_results(v.value)]
        for v in variables
    ]

worst, apart = 0.0, []
for make in (kbz.Lamb, kbz.AdamW):
    one = train(tf.distribute.get_strategy(), make)
    two = train(tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]), make)
    for (expected,), found in zip(one, two, strict=True):
        assert len(found) == 2
        worst = max([worst] + [float(np.abs(value - expected).max()) for value in found])
    apart += [float(np.abs(one[0][0] - other).max()) for (other,) in one[1:]]
print(json.dumps([worst, min(apart)]))
"""


def test_two_replicas_step_like_one_with_rates_by_weight(run_python):
    worst, apart = json.loads(run_python(MIRRORED).splitlines()[-1])
    assert worst <= 1e-6
    assert apart > 1e-3  # What decays, what does so at half the rate and what does not.


@pytest.mark.parametrize("make", [kbz.AdamW, Lamb])
@pytest.mark.parametrize("multipliers", [None, {}, {"kernel": 0.5}])
def test_serialization(make, multipliers):
    optimizer = make(0.02, weight_decay=0.3, bias_correction=False, rate_multipliers=multipliers)
    written = json.dumps(keras.optimizers.serialize(optimizer))
    again = keras.optimizers.deserialize(json.loads(written))
    assert type(again) is make
    config = again.get_config()
    assert config == optimizer.get_config()
    assert (config["weight_decay"], config["bias_correction"]) == (0.3, False)
    assert config["rate_multipliers"] == multipliers
    if multipliers:
        config["rate_multipliers"]["kernel"] = 7.0
        assert again.get_config()["rate_multipliers"] == multipliers


@pytest.mark.parametrize("make", [kbz.AdamW, Lamb])
def test_built_once_each_weight_keeps_its_rate(make):
    """Keras builds an optimizer once, whatever it is asked to build it for later."""
    one, other = (keras.Variable([2.0], name=name) for name in ("one", "other"))
    optimizer = make(0.1, weight_decay=0.2, rate_multipliers={"one": 0.0})
    optimizer.build([one, other])
    optimizer.build([other, one])
    optimizer.apply([tf.ones(1)] * 2, [one, other])
    assert float(one[0]) == 2 and float(other[0]) < 1.95


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"beta_1": 1.0}, "beta_1.*1.0"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"weight_decay": -0.1}, "weight_decay.*-0.1"),
    ],
)
def test_refusals(arguments, message):
    with pytest.raises(ValueError, match=message):
        Lamb(**arguments)
    with pytest.raises(ValueError, match="mixed"):
        Lamb().build([keras.Variable(np.zeros(2), dtype="bfloat16", name="kernel")])
