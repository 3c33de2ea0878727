"""Carries weights of `transformers` into our models and gradients of ours back to its names."""

import keras
import numpy as np

from keras_bert_zoo.checkpoints.loading import fill
from keras_bert_zoo.checkpoints.names import name_pairs
from keras_bert_zoo.checkpoints.source import StoredTensor, TensorSource
from keras_bert_zoo.config import EncoderConfig


class Arrays(TensorSource):
    """A state dict of arrays as a source of tensors."""

    def __init__(self, arrays: dict):
        stored = {name: StoredTensor(a.shape, str(a.dtype)) for name, a in arrays.items()}
        super().__init__("a state dict", "hugging_face", stored)
        self._arrays = arrays

    def _read(self, name, stored, dtype):
        return self._arrays[name].astype(dtype)

    def _release(self):
        pass


def assign(model: keras.Model, state: dict, config: EncoderConfig) -> None:
    """Assigns a state dict to all weights of an encoder or of a task.

    Args:
        model: what to fill. Parts of the state dict that it lacks, such as heads, are left.
        state: numpy arrays by their original names.
        config: the encoder's config.

    Raises:
        AssertionError: if a weight of the model has no counterpart; a pooler may have none.
    """
    missing = fill(model, Arrays(state), config).missing
    assert all(path.startswith("pooler/") for path in missing), missing


def original_names(model: keras.Model, values, layers: int) -> dict:
    """Gives values of the model's trainable weights, such as gradients, their original names.

    Args:
        model: the model.
        values: one an entry of `model.trainable_weights`, in that order.
        layers: blocks of the model.

    Returns:
        Numpy arrays by original name, in the original layout.
    """
    pairs = {pair.ours: pair for pair in name_pairs("hugging_face", layers)}
    found = {}
    for weight, value in zip(model.trainable_weights, values, strict=True):
        pair = pairs[weight.path]
        parts = np.split(keras.ops.convert_to_numpy(value), len(pair.theirs), axis=-1)
        for name, part in zip(pair.theirs, parts, strict=True):
            name = f"bert.{name}" if pair.part in ("encoder", "pooler") else name
            found[name] = part.T if weight.path.endswith("/kernel") else part
    return found


def difference(ours, theirs) -> float:
    """The largest absolute difference of two arrays of one shape."""
    ours, theirs = keras.ops.convert_to_numpy(ours), np.asarray(theirs)
    assert ours.shape == theirs.shape, (ours.shape, theirs.shape)
    return float(np.abs(ours.astype(np.float64) - theirs).max())


def gradient_differences(ours: dict, theirs: dict) -> dict:
    """The norm of each difference relative to the norm of theirs.

    The gradient of a key's bias is zero by theory, since the softmax takes it out, and rounding in
    practice: its difference is held against the gradient of the query's bias.
    """
    assert ours.keys() == theirs.keys(), ours.keys() ^ theirs.keys()
    norms = {name: np.linalg.norm(value) for name, value in theirs.items()}
    return {
        name: float(np.linalg.norm(ours[name] - theirs[name]) / norms[_yardstick(name)])
        for name in theirs
    }


def _yardstick(name):
    return name.replace(".key.bias", ".query.bias")
