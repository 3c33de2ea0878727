"""The vector that stands for the whole input."""

import keras
import tensorflow as tf
from keras import ops

from keras_bert_zoo.layers.initializers import TruncatedNormal


@keras.saving.register_keras_serializable(package="keras_bert_zoo")
class Pooler(keras.layers.Layer):
    """`tanh(W x[0] + b)`: a dense layer on the first token, `[CLS]` (arXiv 1810.04805, A.1).

    Under a causal mask the first token has seen only itself, and the last real one has seen all.

    Args:
        initializer_range: standard deviation of the truncated normal initializer.

    Call arguments:
        sequence_output: float tensor (B, L, H).
        padding_mask: int or bool tensor (B, L), nonzero at real tokens. If it is given, the last
            real token is pooled, not the first one; in a row without any, the first one.

    Returns:
        A float tensor (B, H).
    """

    def __init__(self, initializer_range: float = 0.02, **kwargs):
        super().__init__(**kwargs)
        self.initializer_range = initializer_range

    def build(self, sequence_output_shape):
        width = sequence_output_shape[-1]
        self.dense = keras.layers.Dense(
            width,
            activation="tanh",
            kernel_initializer=TruncatedNormal(self.initializer_range),
            dtype=self.dtype_policy,
            name="dense",
        )
        self.dense.build((sequence_output_shape[0], width))

    def call(self, sequence_output, padding_mask=None):
        if padding_mask is None:
            return self.dense(ops.take(sequence_output, 0, axis=1))
        return self.dense(tf.gather(sequence_output, _last_real(padding_mask), batch_dims=1))

    def get_config(self):
        return super().get_config() | {"initializer_range": self.initializer_range}


@keras.saving.register_keras_serializable(package="keras_bert_zoo")
class PooledPlace(keras.layers.Layer):
    """The place that `Pooler` pools, followed by others.

    Args:
        last: whether that is the last real token, as under a causal mask; by default the first.

    Call arguments:
        padding_mask: int or bool tensor (B, L), nonzero at real tokens.
        positions: int tensor (B, P), other places; `None` for none.

    Returns:
        An int32 tensor (B, 1 + P).
    """

    def __init__(self, last: bool = False, **kwargs):
        super().__init__(**kwargs)
        self.last = bool(last)

    def call(self, padding_mask, positions=None):
        place = _last_real(padding_mask) if self.last else ops.zeros_like(padding_mask[:, 0])
        place = ops.cast(place, "int32")[:, None]
        if positions is None:
            return place
        return ops.concatenate([place, ops.cast(positions, "int32")], axis=1)

    def get_config(self):
        return super().get_config() | {"last": self.last}


def _last_real(padding_mask):
    """The place of each row's last real token, int32 (B,); 0 in a row without any."""
    places = ops.arange(ops.shape(padding_mask)[1])
    return ops.max(ops.where(ops.cast(padding_mask, "bool"), places, 0), axis=1)
