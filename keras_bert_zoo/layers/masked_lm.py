"""The masked-language-model head: all of it but the token table, which it shares."""

import keras

from keras_bert_zoo.layers.activations import get_activation
from keras_bert_zoo.layers.initializers import TruncatedNormal


@keras.saving.register_keras_serializable(package="keras_bert_zoo")
class MaskedLMTransform(keras.layers.Layer):
    """Transforms the vectors at masked positions: `LayerNorm(activation(W x + b))`.

    The product with the transposed token table and `OutputBias` follow.

    Args:
        units: width of the token table, which is the width of the output.
        activation: name or function, as `get_activation` takes it.
        epsilon: epsilon of the layer normalization.
        initializer_range: standard deviation of the truncated normal initializer.

    Call arguments:
        inputs: float tensor (B, P, H).

    Returns:
        A float tensor (B, P, units).
    """

    def __init__(
        self,
        units: int,
        activation="gelu",
        epsilon: float = 1e-12,
        initializer_range: float = 0.02,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.units = units
        self.activation = activation
        self.epsilon = epsilon
        self.initializer_range = initializer_range
        self.dense = keras.layers.Dense(
            units,
            activation=get_activation(activation),
            kernel_initializer=TruncatedNormal(initializer_range),
            dtype=self.dtype_policy,
            name="dense",
        )
        self.layer_norm = keras.layers.LayerNormalization(
            epsilon=epsilon, dtype=self.dtype_policy, name="layer_norm"
        )

    def build(self, inputs_shape):
        self.dense.build(inputs_shape)
        self.layer_norm.build((*inputs_shape[:-1], self.units))

    def call(self, inputs):
        return self.layer_norm(self.dense(inputs))

    def compute_output_shape(self, inputs_shape):
        return (*inputs_shape[:-1], self.units)

    def get_config(self):
        activation = self.activation
        if not isinstance(activation, str):
            activation = keras.activations.serialize(activation)
        return super().get_config() | {
            "units": self.units,
            "activation": activation,
            "epsilon": self.epsilon,
            "initializer_range": self.initializer_range,
        }


@keras.saving.register_keras_serializable(package="keras_bert_zoo")
class OutputBias(keras.layers.Layer):
    """Adds a trainable bias, which starts at zero, along the last axis.

    Call arguments:
        inputs: float tensor (..., V).

    Returns:
        A tensor like `inputs`.
    """

    def build(self, inputs_shape):
        self.bias = self.add_weight(name="bias", shape=(inputs_shape[-1],), initializer="zeros")

    def call(self, inputs):
        return inputs + self.bias
