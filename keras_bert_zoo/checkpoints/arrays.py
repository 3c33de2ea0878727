"""How others lay out an array that is a piece of a variable of ours."""

import math

import keras
import numpy as np

from keras_bert_zoo.config import EncoderConfig

EXTENSIONS = ("copy", "interpolate")


def stored_shape(layout: str, ours: str, theirs: str, shape: tuple, config: EncoderConfig) -> tuple:
    """The shape in which a layout stores a piece of a variable.

    Hugging Face has matrices as (out, in), and so has Google those of the heads; the Garden has the
    heads of attention as an axis of their own. Tables and vectors are the same everywhere.

    Args:
        layout: one of `keras_bert_zoo.checkpoints.names.LAYOUTS`.
        ours: path of our variable.
        theirs: name of the piece.
        shape: shape of the piece as we have it.
        config: the encoder's config.
    """
    if is_transposed(layout, ours, theirs):
        return shape[::-1]
    if layout == "garden":
        heads = config.num_attention_heads
        by_head = (heads, config.hidden_size // heads)
        if "/query_key_value/" in ours:
            return (*shape[:-1], *by_head)
        if ours.endswith("/attention/output/kernel"):
            return (*by_head, *shape[1:])
    return shape


def is_transposed(layout: str, ours: str, theirs: str) -> bool:
    """Whether a layout stores a matrix as (out, in), and we as (in, out)."""
    if layout == "hugging_face":
        return ours.endswith("/kernel")
    return layout == "google" and theirs.endswith("output_weights")


def from_stored(layout: str, ours: str, theirs: str, array: np.ndarray, shape: tuple):
    """A stored piece as we have it, of that shape: a NumPy array or a tensor."""
    if is_transposed(layout, ours, theirs):
        return keras.ops.transpose(array)  # NumPy's takes five times as long.
    return array.reshape(shape)


def piece_shape(shape: tuple, pieces: int) -> tuple:
    """The shape of each of so many pieces that lie side by side in a variable."""
    return (*shape[:-1], shape[-1] // pieces)


def extended(table: np.ndarray, rows: int, how: str) -> np.ndarray:
    """A position table of more rows.

    Args:
        table: float (P, E).
        rows: rows wanted, more than P.
        how: one of `EXTENSIONS`. `"copy"` begins anew after the last row (as in Longformer, arXiv
            2004.05150, section 5); `"interpolate"` stretches the rows over the new length, in
            straight lines between them, the first and the last row staying what they were.

    Returns:
        float (rows, E).
    """
    if how == "copy":
        return np.tile(table, (math.ceil(rows / len(table)), 1))[:rows]
    places = np.linspace(0, len(table) - 1, rows)
    below = np.minimum(places.astype(int), len(table) - 2) if len(table) > 1 else places.astype(int)
    above = np.minimum(below + 1, len(table) - 1)
    share = (places - below)[:, None].astype(table.dtype)
    return table[below] * (1 - share) + table[above] * share
