"""What the heads of several tasks are made of."""

from collections.abc import Sequence

import keras
import tensorflow as tf

from keras_bert_zoo.encoders.transformer import TransformerEncoder
from keras_bert_zoo.layers.dropout import Dropout
from keras_bert_zoo.layers.initializers import TruncatedNormal


def dense_head(
    encoder: TransformerEncoder, vectors, units: int, dropout: float | None = None, name="logits"
):
    """Wires dropout, if any, and a dense layer to vectors that come of an encoder.

    Args:
        encoder: the encoder, whose config says how the layer is initialized.
        vectors: symbolic float tensor (..., H).
        units: width of the output.
        dropout: dropout rate on the vectors; `None` for no such layer.
        name: name of the dense layer, by which checkpoints know it.

    Returns:
        Symbolic logits (..., units), float32 under any policy.
    """
    if dropout is not None:
        vectors = Dropout(dropout, name="head_dropout", dtype=vectors.dtype)(vectors)
    return keras.layers.Dense(
        units,
        kernel_initializer=TruncatedNormal(encoder.config.initializer_range),
        dtype="float32",
        name=name,
    )(vectors)


def checked_layers(encoder: TransformerEncoder, layers: Sequence[int]) -> list[int]:
    """Returns places among the states of an encoder, once it is known that they are such.

    Raises:
        ValueError: if there is no such layer, or the encoder does not give its layers.
    """
    if not encoder.output_hidden_states:
        raise ValueError(
            "`layers` needs the states of every layer: make the encoder with "
            "`output_hidden_states=True`."
        )
    count = encoder.config.num_hidden_layers + 1
    wrong = not isinstance(layers, Sequence) or isinstance(layers, str) or not layers
    if wrong or not all(isinstance(n, int) and -count <= n < count for n in layers):
        raise ValueError(
            f"`layers` must be a list of one or more places from {-count} to {count - 1}. "
            f"Received: {layers!r}"
        )
    return list(layers)


def given_losses(loss_function, y, outputs):
    """Returns the float32 losses of each example, or token, by a loss that `compile` was given."""
    return tf.cast(getattr(loss_function, "call", loss_function)(y, outputs), tf.float32)


def example_weights(y, sample_weight):
    """Returns float32 weights (B,): those given, or ones, as many as there are labels."""
    if sample_weight is None:
        return tf.ones([tf.shape(y)[0]], tf.float32)
    return tf.cast(tf.reshape(sample_weight, [-1]), tf.float32)


def masked_logits(logits, visible):
    """Returns logits of which a softmax gives 0, to the last digit, where `visible` is false."""
    return tf.where(visible, logits, -1e9)


def word_places(ids):
    """Tells where the tokens of texts stand: real ones, but not `[CLS]` and the `[SEP]`s.

    Args:
        ids: a dict of `segment_ids` and `padding_mask`, int32 (B, L), of rows as `Packer` makes
            them: the first token is special, and so is the last one of each segment.

    Returns:
        A bool tensor (B, L).
    """
    real = ids["padding_mask"] > 0
    segments = tf.where(real, ids["segment_ids"], -1)
    following = tf.pad(segments[:, 1:], [[0, 0], [0, 1]], constant_values=-1)
    return real & (segments == following) & (tf.range(tf.shape(real)[1]) > 0)


def pad_rows(ids, length: int, pad_id: int):
    """Pads rows that are as long as the longest of their batch to one length for all batches.

    Args:
        ids: a dict of `token_ids`, `segment_ids` and `padding_mask`, int32 (B, l).
        length: L, at least l.
        pad_id: id of `[PAD]`.

    Returns:
        The dict with tensors (B, L).
    """
    fill = {"token_ids": pad_id}
    padded = {}
    for name, rows in ids.items():
        missing = length - tf.shape(rows)[1]
        rows = tf.pad(rows, [[0, 0], [0, missing]], constant_values=fill.get(name, 0))
        padded[name] = tf.ensure_shape(rows, (None, length))
    return padded
