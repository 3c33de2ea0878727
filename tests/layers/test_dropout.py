"""Dropout: its rate, its seed, and a mask of its own on each replica."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert_zoo.layers.dropout import Dropout

ONES = np.ones((100, 50), np.float32)


def test_rate_and_scale():
    values = Dropout(0.3, seed=1)(ONES, training=True).numpy()
    assert np.unique(values).tolist() == [0, pytest.approx(1 / 0.7, rel=1e-5)]
    assert (values == 0).mean() == pytest.approx(0.3, abs=0.03)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("rate", [0.1, 1e-3, 1 - 1e-3])
def test_the_rate_is_exact_in_every_dtype(rate, dtype):
    """A bfloat16 in [0, 1) has 128 values, of which 0.1 would drop 13: a rate of 0.1016."""
    values = Dropout(rate, seed=1, dtype=dtype)(tf.ones((1000, 4000), dtype), training=True)
    dropped = np.mean(tf.cast(values, "float32").numpy() == 0)
    assert abs(dropped - rate) < 5 * np.sqrt(rate * (1 - rate) / 4e6)


@pytest.mark.parametrize("rate", [0.1, 0.9999, 0.99999])
def test_the_mean_stays(rate):
    values = Dropout(rate, seed=1)(tf.ones(50_000_000), training=True)
    mean = float(tf.reduce_mean(values))
    assert mean == pytest.approx(1, abs=5 * np.sqrt(rate / (1 - rate) / 5e7))


@pytest.mark.parametrize("rate", [0.99999, 1 - 1e-9])
def test_a_rate_near_one_has_finite_gradients_in_half_precision(rate):
    layer, x = Dropout(rate, seed=1, dtype="float16"), tf.ones(1_000_000, "float16")
    with tf.GradientTape() as tape:
        tape.watch(x)
        values = layer(x, training=True)
    assert np.isfinite(values).all() and np.isfinite(tape.gradient(values, x)).all()


def test_more_places_than_an_int32_counts():
    spec = tf.TensorSpec((1025, 16, 512, 512), tf.float32)
    layer = Dropout(0.1, seed=1)
    traced = tf.function(lambda x: layer(x, training=True))
    assert traced.get_concrete_function(spec).output_shapes == spec.shape


@pytest.mark.parametrize("rate", [1e-9, 1 - 1e-9, 1])
def test_the_ends_of_the_rates(rate):
    layer, x = Dropout(rate, seed=1), tf.constant(ONES)
    with tf.GradientTape() as tape:
        tape.watch(x)
        values = layer(x, training=True)
    for found in (values, tape.gradient(values, x)):
        assert np.isfinite(found).all() and np.mean(np.not_equal(found, 0)) == (rate < 0.5)


@pytest.mark.parametrize("shape", [(), (1,), (3, 1, 5), (7,), (0, 4), (2, 3, 5, 7)])
def test_any_shape_and_the_gradient_is_the_mask(shape):
    layer, x = Dropout(0.25, seed=2), tf.ones(shape)
    with tf.GradientTape() as tape:
        tape.watch(x)
        values = layer(x, training=True)
    assert values.shape == shape
    np.testing.assert_array_equal(tape.gradient(values, x), values)


@pytest.mark.parametrize("noise_shape", [(4, 1, 6), (None, 1, None)])
def test_a_shape_of_its_own_for_the_mask(noise_shape):
    values = Dropout(0.5, noise_shape, seed=3)(np.ones((4, 9, 6), "float32"), training=True).numpy()
    assert (values == values[:, :1]).all()
    assert 4 < (values[:, 0] == 0).sum() < 20


def test_neighbouring_places_are_independent():
    """Two places share a random word."""
    dropped = Dropout(0.1, seed=4)(np.ones(4_000_000, "float32"), training=True).numpy() == 0
    for step in (1, 2, 3, 4, 8):
        both = np.mean(dropped[step:] & dropped[:-step])
        assert both == pytest.approx(0.01, abs=5 * np.sqrt(0.01 / 4e6))


@pytest.mark.parametrize("training", [False, None])
def test_does_nothing_outside_training(training):
    np.testing.assert_array_equal(Dropout(0.5)(ONES, training=training), ONES)


def test_a_rate_of_zero_does_nothing():
    np.testing.assert_array_equal(Dropout(0)(ONES, training=True), ONES)


def test_the_seed_decides():
    one, same, other = (
        [layer(ONES, training=True).numpy() for _ in range(3)]
        for layer in (Dropout(0.5, seed=7), Dropout(0.5, seed=7), Dropout(0.5, seed=8))
    )
    np.testing.assert_array_equal(one, same)
    assert (one[0] != other[0]).mean() > 0.4
    for a, b in ((0, 1), (1, 2), (0, 2)):  # Each call draws anew.
        assert (one[a] != one[b]).mean() == pytest.approx(0.5, abs=0.05)


def test_set_random_seed_makes_a_run_repeatable():
    def draw():
        keras.utils.set_random_seed(5)
        layer = Dropout(0.5)
        return [layer(ONES, training=True).numpy() for _ in range(2)]

    np.testing.assert_array_equal(draw(), draw())


@pytest.mark.parametrize("jit", [False, True])
def test_each_call_draws_anew_in_a_graph(jit):
    layer = Dropout(0.5, seed=3)
    run = tf.function(lambda x: layer(x, training=True), jit_compile=jit)
    first, second = run(ONES).numpy(), run(ONES).numpy()
    assert (first != second).mean() == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize("dtype", ["mixed_bfloat16", "mixed_float16"])
def test_half_precision(dtype):
    values = Dropout(0.5, dtype=dtype)(ONES, training=True)
    assert values.dtype == dtype.removeprefix("mixed_")
    assert set(np.unique(tf.cast(values, "float32"))) == {0, 2}


def test_keras_file_keeps_the_rate(tmp_path):
    x = keras.Input((50,))
    keras.Model(x, Dropout(0.25, name="dropout")(x)).save(tmp_path / "model.keras")
    layer = keras.models.load_model(tmp_path / "model.keras").get_layer("dropout")
    assert type(layer) is Dropout
    assert layer.rate == 0.25


REPLICAS = """
import json
import numpy as np, tensorflow as tf
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
import keras
from keras_bert_zoo.layers.dropout import Dropout

def make(kind):
    layer = kind(0.5, seed=11)
    layer.build((100, 50))
    return layer

ones = tf.ones((100, 50))
alone = make(Dropout)
expected = [alone(ones, training=True).numpy() for _ in range(2)]
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    ours, theirs = make(Dropout), make(keras.layers.Dropout)

def run(layer):
    step = tf.function(lambda: strategy.run(lambda: layer(ones, training=True)))
    return [[v.numpy() for v in strategy.experimental_local_results(step())] for _ in range(2)]

(a0, a1), (b0, b1) = run(ours)
(c0, c1), _ = run(theirs)
print(json.dumps({
    "replicas": float((a0 != a1).mean()),
    "replicas later": float((b0 != b1).mean()),
    "steps": float((a0 != b0).mean()),
    "steps of the second": float((a1 != b1).mean()),
    "crosswise": float((a1 != b0).mean()),
    "rate of the second": float((a1 == 0).mean()),
    "first against no strategy": float((a0 != expected[0]).mean()),
    "keras": float((c0 != c1).mean()),
}))
"""


def test_each_replica_draws_its_own_mask(run_python):
    """Shares of places where two masks differ: a half if they are independent."""
    shares = json.loads(run_python(REPLICAS).splitlines()[-1])
    assert shares.pop("first against no strategy") == 0
    assert shares.pop("keras") == 0  # The reason for a layer of our own; see if it still holds.
    for name, share in shares.items():
        assert share == pytest.approx(0.5, abs=0.05), name
