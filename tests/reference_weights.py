"""Carries the state dict of a Hugging Face BERT into our models, by a table of name pairs."""

import keras
import numpy as np

_EMBEDDINGS = "bert.embeddings"
_BLOCK = "bert.encoder.layer.{n}"
_TRANSFORM = "cls.predictions.transform"

# Path of our variable, name of theirs. Theirs may be several, which ours joins along its last
# axis. A `kernel` is the transpose of their `weight`; `{n}` is the number of the block.
PAIRS = (
    ("token_embedding/embeddings", f"{_EMBEDDINGS}.word_embeddings.weight"),
    ("embeddings/position_table", f"{_EMBEDDINGS}.position_embeddings.weight"),
    ("embeddings/segment_table", f"{_EMBEDDINGS}.token_type_embeddings.weight"),
    ("embeddings/layer_norm/gamma", f"{_EMBEDDINGS}.LayerNorm.weight"),
    ("embeddings/layer_norm/beta", f"{_EMBEDDINGS}.LayerNorm.bias"),
    (
        "block_{n}/attention/query_key_value/kernel",
        tuple(f"{_BLOCK}.attention.self.{part}.weight" for part in ("query", "key", "value")),
    ),
    (
        "block_{n}/attention/query_key_value/bias",
        tuple(f"{_BLOCK}.attention.self.{part}.bias" for part in ("query", "key", "value")),
    ),
    ("block_{n}/attention/output/kernel", f"{_BLOCK}.attention.output.dense.weight"),
    ("block_{n}/attention/output/bias", f"{_BLOCK}.attention.output.dense.bias"),
    ("block_{n}/attention_norm/gamma", f"{_BLOCK}.attention.output.LayerNorm.weight"),
    ("block_{n}/attention_norm/beta", f"{_BLOCK}.attention.output.LayerNorm.bias"),
    ("block_{n}/intermediate/kernel", f"{_BLOCK}.intermediate.dense.weight"),
    ("block_{n}/intermediate/bias", f"{_BLOCK}.intermediate.dense.bias"),
    ("block_{n}/output/kernel", f"{_BLOCK}.output.dense.weight"),
    ("block_{n}/output/bias", f"{_BLOCK}.output.dense.bias"),
    ("block_{n}/output_norm/gamma", f"{_BLOCK}.output.LayerNorm.weight"),
    ("block_{n}/output_norm/beta", f"{_BLOCK}.output.LayerNorm.bias"),
    ("pooler/dense/kernel", "bert.pooler.dense.weight"),
    ("pooler/dense/bias", "bert.pooler.dense.bias"),
    ("masked_lm_transform/dense/kernel", f"{_TRANSFORM}.dense.weight"),
    ("masked_lm_transform/dense/bias", f"{_TRANSFORM}.dense.bias"),
    ("masked_lm_transform/layer_norm/gamma", f"{_TRANSFORM}.LayerNorm.weight"),
    ("masked_lm_transform/layer_norm/beta", f"{_TRANSFORM}.LayerNorm.bias"),
    ("masked_lm_bias/bias", "cls.predictions.bias"),
    ("next_sentence_logits/kernel", "cls.seq_relationship.weight"),
    ("next_sentence_logits/bias", "cls.seq_relationship.bias"),
    ("logits/kernel", "classifier.weight"),
    ("logits/bias", "classifier.bias"),
    ("span_logits/kernel", "qa_outputs.weight"),
    ("span_logits/bias", "qa_outputs.bias"),
)


def name_pairs(layers: int):
    """Yields `(our path, tuple of their names)` for a model of so many blocks."""
    for ours, theirs in PAIRS:
        theirs = (theirs,) if isinstance(theirs, str) else theirs
        for n in range(layers if "{n}" in ours else 1):
            yield ours.format(n=n), tuple(name.format(n=n) for name in theirs)


def assign(model: keras.Model, state: dict, layers: int) -> None:
    """Assigns a state dict to all weights of an encoder or of a task.

    Args:
        model: what to fill. Parts of the state dict that it lacks, such as heads, are left.
        state: numpy arrays by their original names.
        layers: blocks of the model.

    Raises:
        AssertionError: if a weight of the model has no counterpart, or differs in shape.
    """
    names = dict(name_pairs(layers))
    for weight in model.weights:
        assert weight.path in names, f"{weight.path} has no counterpart in the table"
        parts = [state[name] for name in names[weight.path]]
        if weight.path.endswith("/kernel"):
            parts = [part.T for part in parts]
        value = np.concatenate(parts, axis=-1) if len(parts) > 1 else parts[0]
        assert value.shape == tuple(weight.shape), weight.path
        weight.assign(value)


def original_names(model: keras.Model, values, layers: int) -> dict:
    """Gives values of the model's trainable weights, such as gradients, their original names.

    Args:
        model: the model.
        values: one an entry of `model.trainable_weights`, in that order.
        layers: blocks of the model.

    Returns:
        Numpy arrays by original name, in the original layout.
    """
    names = dict(name_pairs(layers))
    found = {}
    for weight, value in zip(model.trainable_weights, values, strict=True):
        theirs = names[weight.path]
        parts = np.split(keras.ops.convert_to_numpy(value), len(theirs), axis=-1)
        for name, part in zip(theirs, parts, strict=True):
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
