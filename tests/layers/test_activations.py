"""The activations equal their formulas, and GELU keeps to operations that converters know."""

import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert_zoo.config import ACTIVATIONS
from keras_bert_zoo.layers.activations import gelu, gelu_tanh, get_activation

X = np.concatenate([np.linspace(-12, 12, 2001), [-1e4, -40, -1e-6, 0, 1e-6, 40, 1e4]])


def exact(x):
    return np.array([0.5 * v * (1 + math.erf(v / math.sqrt(2))) for v in x])


def tanh_form(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


@pytest.mark.parametrize("function, formula", [(gelu, exact), (gelu_tanh, tanh_form)])
def test_equals_its_formula(function, formula):
    values = keras.ops.convert_to_numpy(function(X.astype(np.float32)))
    np.testing.assert_allclose(values, formula(X), rtol=2e-6, atol=1e-6)
    values = keras.ops.convert_to_numpy(function(keras.ops.convert_to_tensor(X, "float64")))
    np.testing.assert_allclose(values, formula(X), rtol=1e-12, atol=1e-12)


def test_the_two_forms_differ():
    assert np.abs(exact(X) - tanh_form(X)).max() > 4e-4


@pytest.mark.parametrize("function", [gelu, gelu_tanh])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_stays_finite_with_its_gradient(function, dtype):
    assert np.isfinite(tf.cast(function(tf.constant(X, dtype)), "float32").numpy()).all()
    # Squares of more than 255 are beyond float16, and with them the tanh form's gradient.
    x = tf.constant(X.clip(-200, 200), dtype)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
    assert y.dtype == dtype
    assert np.isfinite(tf.cast(y, "float32").numpy()).all()
    assert np.isfinite(tf.cast(tape.gradient(y, x), "float32").numpy()).all()


def plain_gelu(x):
    return 0.5 * x * (1 + tf.math.erf(x / math.sqrt(2)))


def test_gradients_of_gelu_are_those_of_its_formula():
    def derivatives(function):
        x = tf.constant(X[np.abs(X) < 20])
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                y = 3.0 * function(x)
            first = inner.gradient(y, x)
        return first, outer.gradient(first, x)

    for ours, formula in zip(derivatives(gelu), derivatives(plain_gelu), strict=True):
        np.testing.assert_allclose(ours, formula, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_gelu_takes_a_symbolic_tensor(dtype):
    inputs = keras.Input((3,), dtype=dtype)
    outputs = gelu(inputs)
    assert outputs.dtype == dtype
    x = tf.cast(X[:6].reshape(2, 3), dtype)
    np.testing.assert_array_equal(keras.Model(inputs, outputs)(x), gelu(x))


def operations(function):
    graph = tf.function(function).get_concrete_function(tf.TensorSpec((None,), tf.float32)).graph
    return {operation.type for operation in graph.get_operations()}


def test_gelu_is_written_with_erf_alone():
    """Keras's own emits Erfc, for which ONNX and LiteRT have no operation."""
    assert "Erfc" in operations(lambda x: keras.activations.gelu(x, approximate=False))
    used = operations(gelu)
    assert "Erf" in used
    assert used <= {"Placeholder", "Const", "Erf", "Mul", "AddV2", "Identity", "IdentityN"}


@pytest.mark.parametrize(
    "name, formula",
    [
        ("gelu", exact),
        ("gelu_new", tanh_form),
        ("gelu_pytorch_tanh", tanh_form),
        ("relu", lambda x: np.maximum(x, 0)),
        ("silu", lambda x: x / (1 + np.exp(-x))),
        ("tanh", np.tanh),
    ],
)
def test_names_mean_what_config_files_mean(name, formula):
    assert name in ACTIVATIONS
    x = X[np.abs(X) < 50]
    values = keras.ops.convert_to_numpy(get_activation(name)(x.astype(np.float32)))
    np.testing.assert_allclose(values, formula(x), rtol=1e-5, atol=1e-6)


def test_every_activation_of_a_config_is_there():
    for name in ACTIVATIONS:
        assert callable(get_activation(name))


def test_a_function_is_taken_as_it_is():
    assert get_activation(gelu_tanh) is gelu_tanh


def test_our_functions_survive_serialization():
    for function in (gelu, gelu_tanh):
        kept = keras.activations.deserialize(keras.activations.serialize(function))
        assert kept is function
