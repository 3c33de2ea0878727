"""One vector for a whole sequence, without weights."""

import keras
from keras import ops

POOLINGS = ("mean", "cls", "max")


@keras.saving.register_keras_serializable(package="keras_bert_zoo")
class SequencePooling(keras.layers.Layer):
    """Pools the vectors of a sequence into one, and may scale that to length 1.

    It computes in float32 under any policy. A row without real tokens gives zeros.

    Args:
        pooling: `"mean"` or `"max"` over the real tokens, or `"cls"`, the vector of the first one.
        normalize: whether to divide by the Euclidean norm, or by 1e-12 if it is smaller, as
            sentence-transformers and torch do.

    Call arguments:
        sequence_output: float tensor (B, L, H).
        padding_mask: int or bool tensor (B, L), nonzero at real tokens.

    Returns:
        A float32 tensor (B, H).

    Raises:
        ValueError: if there is no such pooling.
    """

    def __init__(self, pooling: str = "mean", normalize: bool = False, **kwargs):
        super().__init__(**kwargs)
        if pooling not in POOLINGS:
            raise ValueError(f"`pooling` must be one of {', '.join(POOLINGS)}. Received: {pooling}")
        self.pooling = pooling
        self.normalize = bool(normalize)
        self.built = True

    def call(self, sequence_output, padding_mask):
        x = ops.cast(sequence_output, "float32")
        real = ops.cast(padding_mask, "bool")[:, :, None]
        if self.pooling == "mean":
            count = ops.sum(ops.cast(real, "float32"), axis=1)
            # Not a product with the mask: padding may hold what is not finite.
            pooled = ops.sum(ops.where(real, x, 0.0), axis=1) / ops.maximum(count, 1.0)
        elif self.pooling == "max":
            pooled = ops.max(ops.where(real, x, -float("inf")), axis=1)
        else:
            pooled = x[:, 0]
        pooled = ops.where(ops.any(real, axis=1), pooled, 0.0)
        if self.normalize:
            squares = ops.sum(ops.square(pooled), axis=-1, keepdims=True)
            # The bound stands within the root, whose gradient at 0 is not finite.
            pooled = pooled / ops.sqrt(ops.maximum(squares, 1e-24))
        return pooled

    def compute_output_spec(self, sequence_output, padding_mask):
        shape = (sequence_output.shape[0], sequence_output.shape[2])
        return keras.KerasTensor(shape, dtype="float32")

    def get_config(self):
        return super().get_config() | {"pooling": self.pooling, "normalize": self.normalize}
