"""Multi-head self-attention with one fused product for queries, keys and values."""

import math

import keras
import tensorflow as tf
from keras import ops

from keras_bert_zoo.layers.dropout import Dropout
from keras_bert_zoo.layers.initializers import TruncatedNormal


@keras.saving.register_keras_serializable(package="keras_bert_zoo")
class SelfAttention(keras.layers.Layer):
    """Multi-head scaled dot-product self-attention (arXiv 1706.03762, section 3.2).

    `softmax(Q K^T / sqrt(D) + mask) V`, the heads joined and projected. A position that may not
    be seen has probability exactly 0; a row in which nothing may be seen stays finite.

    Args:
        num_heads: heads A; must divide the width of the input.
        dropout: dropout rate on the probabilities.
        initializer_range: standard deviation of the truncated normal initializer.

    Call arguments:
        inputs: float tensor (B, L, H).
        padding_mask: int or bool tensor (B, L), nonzero at real tokens; keys elsewhere are hidden.
        causal: bool; if true, a position sees only itself and those before it.
        block_ids: int tensor (B, L): positions see only those of the same number, so that several
            texts can be packed in one row.
        positions: int tensor (B, P): the places whose vectors are asked for; `None` for all. The
            others are seen all the same.
        return_probabilities: bool; if true, the probabilities come along.

    Returns:
        A float tensor (B, L, H); with `return_probabilities`, a pair of it and the probabilities
        (B, A, L, L), as they are before dropout. With `positions`, (B, P, H) and (B, A, P, L).

    Raises:
        ValueError: if `num_heads` does not divide H.
    """

    def __init__(
        self,
        num_heads: int,
        dropout: float = 0.1,
        initializer_range: float = 0.02,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.dropout_rate = dropout
        self.initializer_range = initializer_range
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")

    def build(self, inputs_shape):
        width = inputs_shape[-1]
        if width % self.num_heads:
            raise ValueError(
                "The width of the input must be a multiple of `num_heads`. Received: width "
                f"{width}, num_heads={self.num_heads}"
            )
        self.head_size = width // self.num_heads

        def dense(units, name):
            initializer = TruncatedNormal(self.initializer_range)
            layer = keras.layers.Dense(
                units, kernel_initializer=initializer, dtype=self.dtype_policy, name=name
            )
            layer.build(inputs_shape)
            return layer

        self.query_key_value = dense(3 * width, "query_key_value")
        self.output_dense = dense(width, "output")

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
        query, key, value = ops.split(self.query_key_value(inputs), 3, axis=-1)
        if positions is not None:
            query = tf.gather(query, positions, batch_dims=1)
        query, key, value = (self._split_heads(x) for x in (query, key, value))
        # Scaling the queries costs L*D products a head, scaling the scores L*L.
        query = query * ops.cast(1.0 / math.sqrt(self.head_size), query.dtype)
        scores = ops.matmul(query, ops.transpose(key, (0, 1, 3, 2)))
        visible = _visible(inputs, padding_mask, causal, block_ids, positions)
        if visible is not None:
            # Finite in every dtype, and so low that the softmax underflows to 0.
            hidden = -3e4 if scores.dtype == "float16" else -1e9
            scores = scores + ops.cast(ops.where(visible, 0.0, hidden), scores.dtype)
        probabilities = ops.softmax(scores, axis=-1)
        context = ops.matmul(self.dropout(probabilities, training=training), value)
        context = ops.transpose(context, (0, 2, 1, 3))
        outputs = self.output_dense(_reshape_rest(context, self.num_heads * self.head_size))
        return (outputs, probabilities) if return_probabilities else outputs

    def _split_heads(self, x):
        x = _reshape_rest(x, self.num_heads, self.head_size)
        return ops.transpose(x, (0, 2, 1, 3))

    def get_config(self):
        return super().get_config() | {
            "num_heads": self.num_heads,
            "dropout": self.dropout_rate,
            "initializer_range": self.initializer_range,
        }


def _reshape_rest(x, *rest):
    """Reshapes all but the first two dimensions; a known length stays a constant of the graph."""
    batch, length = ops.shape(x)[:2]
    return ops.reshape(x, (batch if x.shape[1] is None else -1, length, *rest))


def _visible(inputs, padding_mask, causal, block_ids, positions):
    """Which keys a query may see: bool, broadcastable to (B, 1, P, L), or `None` for all."""
    parts = []
    if padding_mask is not None:
        parts.append(ops.cast(padding_mask, "bool")[:, None, None, :])
    if causal:
        order = ops.arange(ops.shape(inputs)[1])
        own = order[None] if positions is None else ops.cast(positions, order.dtype)
        parts.append(order[None, None, None, :] <= own[:, None, :, None])
    if block_ids is not None:
        own = block_ids
        if positions is not None:
            own = tf.gather(block_ids, positions, batch_dims=1)
        parts.append(block_ids[:, None, None, :] == own[:, None, :, None])
    visible = None
    for part in parts:
        visible = part if visible is None else ops.logical_and(visible, part)
    return visible
