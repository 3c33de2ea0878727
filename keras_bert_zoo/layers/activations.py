"""Activations by the names that config files give them."""

import math

import keras
import tensorflow as tf
from keras import ops


@keras.saving.register_keras_serializable(package="keras_bert_zoo")
def gelu(x):
    """The Gaussian error linear unit, `0.5 x (1 + erf(x / sqrt(2)))` (arXiv 1606.08415).

    Written with `erf`, as `keras.ops.gelu` emits an `Erfc` that neither ONNX nor LiteRT knows.

    Args:
        x: float tensor of any shape.

    Returns:
        A tensor like `x`.
    """
    if isinstance(x, keras.KerasTensor):
        return keras.layers.Activation(gelu, dtype=x.dtype)(x)
    return _gelu(tf.convert_to_tensor(x))


@tf.custom_gradient
def _gelu(x):
    z = x * (1.0 / math.sqrt(2.0))
    share = 1.0 + tf.math.erf(z)

    def gradient(upstream):
        # Over the widest tensors of a model, on which TensorFlow's own has two operations more.
        density = z * tf.exp(-tf.square(z)) * (2.0 / math.sqrt(math.pi))
        return upstream * (0.5 * (share + density))

    return 0.5 * x * share, gradient


@keras.saving.register_keras_serializable(package="keras_bert_zoo")
def gelu_tanh(x):
    """The tanh approximation of `gelu` (arXiv 1606.08415, section 2).

    Args:
        x: float tensor of any shape.

    Returns:
        A tensor like `x`.
    """
    return 0.5 * x * (1.0 + ops.tanh(math.sqrt(2.0 / math.pi) * x * (1.0 + 0.044715 * x * x)))


_BY_NAME = {"gelu": gelu, "gelu_new": gelu_tanh, "gelu_pytorch_tanh": gelu_tanh}


def get_activation(identifier):
    """Returns the activation function that a config means.

    Args:
        identifier: a name (`"gelu"` is the erf form, `"gelu_new"` and `"gelu_pytorch_tanh"` the
            tanh form; any other name is Keras's) or a callable.
    """
    if isinstance(identifier, str) and identifier in _BY_NAME:
        return _BY_NAME[identifier]
    # Keras wraps the dicts of a saved config, and does not take them back wrapped.
    return keras.activations.get(dict(identifier) if isinstance(identifier, dict) else identifier)
