"""The vector that stands for the whole input."""

import keras
from keras import ops

from keras_bert_zoo.layers.initializers import TruncatedNormal


@keras.saving.register_keras_serializable(package="keras_bert_zoo")
class Pooler(keras.layers.Layer):
    """`tanh(W x[0] + b)`: a dense layer on the first token, `[CLS]` (arXiv 1810.04805, A.1).

    With a mask it is on the last real token, the one that in a causal encoder has seen the others.

    Args:
        initializer_range: standard deviation of the truncated normal initializer.

    Call arguments:
        sequence_output: float tensor (B, L, H).
        padding_mask: int tensor (B, L), 1 at real tokens; `None` for the first token.

    Returns:
        A float tensor (B, H).
    """

    def __init__(self, initializer_range: float = 0.02, **kwargs):
        super().__init__(**kwargs)
        self.initializer_range = initializer_range

    def build(self, sequence_output_shape, padding_mask_shape=None):
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
        places = ops.arange(ops.shape(padding_mask)[1], dtype=padding_mask.dtype)
        last = ops.max(padding_mask * places, axis=1)
        chosen = ops.take_along_axis(sequence_output, last[:, None, None], axis=1)
        return self.dense(ops.squeeze(chosen, axis=1))

    def get_config(self):
        return super().get_config() | {"initializer_range": self.initializer_range}
