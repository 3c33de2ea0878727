"""Lower learning rates for lower layers."""

import re

import keras

_BLOCK = re.compile(r"(?:^|/)block_(\d+)/")
_EMBEDDINGS = re.compile(r"(?:^|/)embeddings/")


def layer_rates(model: keras.Model, decay: float) -> dict[str, float]:
    """Factors by which the learning rate falls from layer to layer downwards.

    With N blocks, the factor of block n (from 0) is decay^(N - n), that of the embeddings
    decay^(N + 1), and 1 for the pooler and the heads (arXiv 1801.06146, section 3.2; layers counted
    as in arXiv 2003.10555).

    Args:
        model: an encoder or a task.
        decay: the factor from one layer to the next, from 0 to 1; 0.8 to 0.95 are usual.

    Returns:
        By the path of each trainable weight, as `rate_multipliers` of `AdamW` and `Lamb` take it.

    Raises:
        ValueError: if `decay` is out of range, or the model has no blocks.
    """
    if not 0 <= decay <= 1:
        raise ValueError(f"`decay` must be from 0 to 1. Received: {decay}")
    found = {weight.path: _BLOCK.search(weight.path) for weight in model.weights}
    blocks = 1 + max((int(match[1]) for match in found.values() if match), default=-1)
    if not blocks:
        raise ValueError(f"{model.name} has no weights in `block_...`, as encoders have.")

    def depth(path):
        if found[path]:
            return blocks - int(found[path][1])
        return blocks + 1 if _EMBEDDINGS.search(path) else 0

    return {weight.path: decay ** depth(weight.path) for weight in model.trainable_weights}
