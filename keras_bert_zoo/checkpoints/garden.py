"""Where TF Model Garden's TF2 checkpoints keep what, brought to one set of names.

The Garden has had two encoders, several places for an encoder within a checkpoint, and several
heads. A functional encoder's keys number its layers that have weights; the later encoder's are
attribute names, which are those used here (tensorflow/models, official/nlp/modeling).
"""

import re
from collections.abc import Mapping

_VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"
_ROOTS = ("encoder/", "model/encoder_network/", "model/layer_with_weights-0/", "model/")
_NUMBERED = (
    "_embedding_layer",
    "_position_embedding_layer",
    "_type_embedding_layer",
    "_embedding_norm_layer",
)
_BLOCKS, _POOLER = "_transformer_layers", "_pooler_layer"

# Where heads lie and what they are called here; of two places for one thing the first counts.
# A next-sentence head has a dense layer of its own, which is the pooler that was trained: the
# encoder's, which is stored beside it, was not.
_HEADS = (
    ("masked_lm/", "masked_lm/"),
    ("model/masked_lm/", "masked_lm/"),
    ("next_sentence..pooler_dense/", f"{_POOLER}/"),
    ("sentence_prediction..pooler_dense/", f"{_POOLER}/"),
    ("model/classification_heads/0/dense/", f"{_POOLER}/"),
    ("model/classification_heads/0/out_proj/", "next_sentence/"),
)
# The same beside an encoder that is itself the first layer of a model.
_NUMBERED_HEADS = (
    ("model/layer_with_weights-2/", "masked_lm/"),
    ("model/layer_with_weights-1/dense/", f"{_POOLER}/"),
    ("model/layer_with_weights-1/out_proj/", "classifier/"),
    ("model/layer_with_weights-1/layer_with_weights-0/", "span/"),
    ("model/layer_with_weights-1/", "classifier/"),
)


def garden_names(names: Mapping[str, str], num_hidden_layers: int) -> dict[str, str]:
    """Gives the stored names of a Garden checkpoint by the names of the later encoder.

    Args:
        names: stored names by themselves, without optimizers' state.
        num_hidden_layers: blocks N, which say what layer the numbered ones end with.

    Returns:
        Stored names by clean names; those that are not understood by their own.
    """
    names = {name.removesuffix(_VALUE): stored for name, stored in names.items()}
    places = ("layer_with_weights-1/embeddings", "_position_embedding_layer/embeddings")
    roots = (root for root in _ROOTS if any(root + place in names for place in places))
    root = next(roots, None)
    if root is None:
        return names
    heads = _HEADS if root == "model/" else (*_HEADS, *_NUMBERED_HEADS)
    encoder, others = {}, {}
    for name, stored in names.items():
        clean = _encoder_name(name.removeprefix(root), num_hidden_layers)
        if name.startswith(root) and clean:
            encoder[clean] = stored
        else:
            others[name] = stored

    found = {}
    for place, clean in heads:
        if place.endswith("-1/layer_with_weights-0/") and "masked_lm/dense/kernel" in found:
            clean = "next_sentence/"  # A span labeler's head lies in the same place.
        for name in [name for name in others if name.startswith(place)]:
            found.setdefault(clean + name.removeprefix(place), others.pop(name))
    # A table that is shared with the head is stored once, at the head.
    table = found.pop("masked_lm/embedding_table", None)
    if table is not None:
        encoder.setdefault("_embedding_layer/embeddings", table)
    return others | encoder | found


def _encoder_name(name: str, num_hidden_layers: int) -> str | None:
    """The later encoder's name of a weight below the encoder's root, if it is one."""
    numbered = re.fullmatch(r"layer_with_weights-(\d+)/(.+)", name)
    if numbered:
        number, rest = int(numbered[1]), numbered[2]
        block = number - len(_NUMBERED)
        if block < 0:
            name = f"{_NUMBERED[number]}/{rest}"
        elif block < num_hidden_layers:
            name = f"{_BLOCKS}/{block}/{rest}"
        elif block == num_hidden_layers:
            name = f"{_POOLER}/{rest}"
        else:
            return None
    if not name.startswith((*_NUMBERED, f"{_BLOCKS}/", f"{_POOLER}/")):
        return None
    return name.replace("/_attention_output_dense/", "/_attention_layer/_output_dense/")
