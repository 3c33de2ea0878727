"""The post-norm transformer block."""

import keras
import tensorflow as tf

from keras_bert_zoo.layers.activations import get_activation
from keras_bert_zoo.layers.attention import SelfAttention
from keras_bert_zoo.layers.dropout import Dropout
from keras_bert_zoo.layers.initializers import TruncatedNormal


@keras.saving.register_keras_serializable(package="keras_bert_zoo")
class TransformerBlock(keras.layers.Layer):
    """Self-attention and feed-forward, each followed by residual and normalization.

    `x = LayerNorm(x + dropout(attention(x)))`, then
    `x = LayerNorm(x + dropout(W2 activation(W1 x)))` (arXiv 1706.03762, section 3.1).

    Args:
        num_heads: attention heads.
        intermediate_size: inner width of the feed-forward part.
        activation: name or function, as `get_activation` takes it.
        dropout: dropout rate after each of the two parts.
        attention_dropout: dropout rate on the attention probabilities.
        epsilon: epsilon of the layer normalizations.
        initializer_range: standard deviation of the truncated normal initializer.

    Call arguments:
        inputs: float tensor (B, L, H).
        padding_mask, causal, block_ids, return_probabilities: as `SelfAttention` takes them.
        positions: int tensor (B, P): the places whose vectors are computed; `None` for all.

    Returns:
        A float tensor (B, L, H), or (B, P, H); with `return_probabilities`, a pair of it and the
        attention probabilities (B, A, L, L), or (B, A, P, L).
    """

    def __init__(
        self,
        num_heads: int,
        intermediate_size: int,
        activation="gelu",
        dropout: float = 0.1,
        attention_dropout: float = 0.1,
        epsilon: float = 1e-12,
        initializer_range: float = 0.02,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.intermediate_size = intermediate_size
        self.activation = activation
        self.dropout_rate = dropout
        self.attention_dropout_rate = attention_dropout
        self.epsilon = epsilon
        self.initializer_range = initializer_range
        self.attention = SelfAttention(
            num_heads,
            dropout=attention_dropout,
            initializer_range=initializer_range,
            dtype=self.dtype_policy,
            name="attention",
        )
        self.attention_norm = self._layer_norm("attention_norm")
        self.output_norm = self._layer_norm("output_norm")
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")

    def build(self, inputs_shape):
        width = inputs_shape[-1]
        self.intermediate = self._dense(
            self.intermediate_size, "intermediate", get_activation(self.activation)
        )
        self.output_dense = self._dense(width, "output")
        for layer in (self.attention, self.attention_norm, self.intermediate, self.output_norm):
            layer.build(inputs_shape)
        self.output_dense.build((*inputs_shape[:-1], self.intermediate_size))

    def call(
        self,
        inputs,
        padding_mask=None,
        causal=False,
        block_ids=None,
        positions=None,
        return_probabilities=False,
        training=None,
    ):
        attended, probabilities = self.attention(
            inputs,
            padding_mask=padding_mask,
            causal=causal,
            block_ids=block_ids,
            positions=positions,
            return_probabilities=True,
            training=training,
        )
        if positions is not None:
            inputs = tf.gather(inputs, positions, batch_dims=1)
        x = self.attention_norm(inputs + self.dropout(attended, training=training))
        fed_forward = self.output_dense(self.intermediate(x))
        x = self.output_norm(x + self.dropout(fed_forward, training=training))
        return (x, probabilities) if return_probabilities else x

    def _layer_norm(self, name):
        return keras.layers.LayerNormalization(
            epsilon=self.epsilon, dtype=self.dtype_policy, name=name
        )

    def _dense(self, units, name, activation=None):
        return keras.layers.Dense(
            units,
            activation=activation,
            kernel_initializer=TruncatedNormal(self.initializer_range),
            dtype=self.dtype_policy,
            name=name,
        )

    def get_config(self):
        activation = self.activation
        if not isinstance(activation, str):
            activation = keras.activations.serialize(activation)
        return super().get_config() | {
            "num_heads": self.num_heads,
            "intermediate_size": self.intermediate_size,
            "activation": activation,
            "dropout": self.dropout_rate,
            "attention_dropout": self.attention_dropout_rate,
            "epsilon": self.epsilon,
            "initializer_range": self.initializer_range,
        }
