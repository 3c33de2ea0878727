"""The one table of our variables' paths beside their names in the checkpoints of others."""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import keras

from keras_bert_zoo.checkpoints.garden import garden_names

LAYOUTS = ("hugging_face", "google", "garden")

# A row is a layer: what kind it is, the part of a model it belongs to, our path, the shape of its
# table, kernel or scale, and its names in Hugging Face's folders, in Google's TF1 checkpoints and
# in TF Model Garden's TF2 checkpoints, each as `cleaned` leaves them. `{n}` is a block's number.
# `{qkv}` stands for three layers that we hold side by side in one. Letters of shapes: V vocabulary,
# P positions, S segments, E width of the tables, H hidden size, I inner size, C classes, 1 or 2.
TABLE = (
    ("table", "encoder", "token_embedding/embeddings", "VE",
     "embeddings.word_embeddings", "embeddings/word_embeddings", "_embedding_layer"),
    ("table", "encoder", "embeddings/position_table", "PE",
     "embeddings.position_embeddings", "embeddings/position_embeddings",
     "_position_embedding_layer"),
    ("table", "encoder", "embeddings/segment_table", "SE",
     "embeddings.token_type_embeddings", "embeddings/token_type_embeddings",
     "_type_embedding_layer"),
    ("norm", "encoder", "embeddings/layer_norm", "E",
     "embeddings.LayerNorm", "embeddings/LayerNorm", "_embedding_norm_layer"),
    ("dense", "encoder", "block_{n}/attention/query_key_value", "HH",
     "encoder.layer.{n}.attention.self.{qkv}", "encoder/layer_{n}/attention/self/{qkv}",
     "_transformer_layers/{n}/_attention_layer/_{qkv}_dense"),
    ("dense", "encoder", "block_{n}/attention/output", "HH",
     "encoder.layer.{n}.attention.output.dense", "encoder/layer_{n}/attention/output/dense",
     "_transformer_layers/{n}/_attention_layer/_output_dense"),
    ("norm", "encoder", "block_{n}/attention_norm", "H",
     "encoder.layer.{n}.attention.output.LayerNorm",
     "encoder/layer_{n}/attention/output/LayerNorm",
     "_transformer_layers/{n}/_attention_layer_norm"),
    ("dense", "encoder", "block_{n}/intermediate", "HI",
     "encoder.layer.{n}.intermediate.dense", "encoder/layer_{n}/intermediate/dense",
     "_transformer_layers/{n}/_intermediate_dense"),
    ("dense", "encoder", "block_{n}/output", "IH",
     "encoder.layer.{n}.output.dense", "encoder/layer_{n}/output/dense",
     "_transformer_layers/{n}/_output_dense"),
    ("norm", "encoder", "block_{n}/output_norm", "H",
     "encoder.layer.{n}.output.LayerNorm", "encoder/layer_{n}/output/LayerNorm",
     "_transformer_layers/{n}/_output_layer_norm"),
    ("dense", "pooler", "pooler/dense", "HH", "pooler.dense", "pooler/dense", "_pooler_layer"),
    ("dense", "masked_lm", "masked_lm_transform/dense", "HE",
     "cls.predictions.transform.dense", "cls/predictions/transform/dense", "masked_lm/dense"),
    ("norm", "masked_lm", "masked_lm_transform/layer_norm", "E",
     "cls.predictions.transform.LayerNorm", "cls/predictions/transform/LayerNorm",
     "masked_lm/layer_norm"),
    ("bias", "masked_lm", "masked_lm_bias", "V",
     "cls.predictions", "cls/predictions", "masked_lm"),
    ("head", "next_sentence", "next_sentence_logits", "H2",
     "cls.seq_relationship", "cls/seq_relationship", "next_sentence"),
    ("head", "classifier", "logits", "HC", "classifier", "", "classifier"),
    ("head", "span", "span_logits", "H2", "qa_outputs", "cls/squad", "span"),
)  # fmt: skip

# What a layer's variables are called, in the order of the columns of the table.
_VARIABLES = {
    "table": (("", ".weight", "", "/embeddings"),),
    "norm": (("/gamma", ".weight", "/gamma", "/gamma"), ("/beta", ".bias", "/beta", "/beta")),
    "dense": (("/kernel", ".weight", "/kernel", "/kernel"), ("/bias", ".bias", "/bias", "/bias")),
    "bias": (("/bias", ".bias", "/output_bias", "/output_bias.Sbias"),),
    "head": (
        ("/kernel", ".weight", "/output_weights", "/kernel"),
        ("/bias", ".bias", "/output_bias", "/bias"),
    ),
}

# Rewritings that make names of one layout the same however they were saved, and names that are
# no weights of a model: buffers and optimizers' state.
_CLEANING = {
    "hugging_face": (
        (r"^module\.", ""),
        (r"^bert\.", ""),
        (r"LayerNorm\.gamma$", "LayerNorm.weight"),
        (r"LayerNorm\.beta$", "LayerNorm.bias"),
    ),
    "google": ((r"^bert/", ""),),
}
_NO_WEIGHTS = {
    "hugging_face": r"embeddings\.(position_ids|token_type_ids)",
    "google": r"(.*/)?(adam_[mv]|lamb_[mv]|Adam(_\d+)?|LAMB(_\d+)?|Momentum"
    r"|ExponentialMovingAverage)|(.*/)?global_step|(.*/)?beta[12]_power(_\d+)?"
    r"|(.*/)?(current_loss_scale|good_steps|bad_steps|loss_scale)",
    "garden": r"_CHECKPOINTABLE_OBJECT_GRAPH|(save_counter|global_step)/.*|.*/\.OPTIMIZER_SLOT/.*"
    r"|optimizer/.*|train_loss/.*|validation_loss/.*|.*metrics/.*",
}
POSITIONS = "embeddings/position_table"
# Weights of a head that are the same as others, and may be stored with them or in their place.
TIED = {
    "cls.predictions.decoder.weight": "embeddings.word_embeddings.weight",
    "cls.predictions.decoder.bias": "cls.predictions.bias",
}


class Pair(NamedTuple):
    """A variable of ours and what it is made of.

    Attributes:
        part: the part of a model that it belongs to.
        ours: the path of our variable.
        shape: the shape of one piece of it.
        theirs: the names of its pieces, one or three, which lie side by side along the last axis.
    """

    part: str
    ours: str
    shape: str
    theirs: tuple[str, ...]


def name_pairs(layout: str, num_hidden_layers: int) -> Iterator[Pair]:
    """Yields the name pairs of an encoder of so many blocks and of all heads, one at a time.

    Args:
        layout: one of `LAYOUTS`.
        num_hidden_layers: blocks N.
    """
    column = LAYOUTS.index(layout)
    for kind, part, ours, shape, *names in TABLE:
        for variable, *ends in _VARIABLES[kind]:
            # A bias or a shift is as long as a kernel is wide.
            size = shape[-1] if variable in ("/bias", "/beta") else shape
            theirs = (names[column] + ends[column]).lstrip("/")
            for n in range(num_hidden_layers) if "{n}" in ours else (0,):
                pieces = ("query", "key", "value") if "{qkv}" in theirs else ("",)
                stored = tuple(theirs.format(n=n, qkv=piece) for piece in pieces)
                yield Pair(part, ours.format(n=n) + variable, size, stored)


def cleaned(layout: str, names: Iterable[str], num_hidden_layers: int) -> dict[str, str]:
    """Gives stored names by the names that the table has for them, or else by their own.

    Names of buffers and of optimizers' state are left out.

    Args:
        layout: one of `LAYOUTS`.
        names: the names in the checkpoint.
        num_hidden_layers: blocks N.

    Raises:
        ValueError: if two names mean the same weight.
    """
    no_weight = re.compile(_NO_WEIGHTS[layout])
    found: dict[str, str] = {}
    for name in sorted(names):
        clean = name
        for pattern, replacement in _CLEANING.get(layout, ()):
            clean = re.sub(pattern, replacement, clean)
        if no_weight.fullmatch(clean):
            continue
        if clean in found:
            raise ValueError(
                f"The checkpoint holds the same weight twice, as {found[clean]!r} and {name!r}: "
                "take one out."
            )
        found[clean] = name
    for copy, original in TIED.items():
        if copy in found and original not in found:
            found[original] = found.pop(copy)
    return found if layout != "garden" else garden_names(found, num_hidden_layers)


def variables_by_path(model: keras.Model) -> dict[str, keras.Variable]:
    """Gives the weights of a model by the paths that the table has for them.

    A model that was made in a `keras.name_scope`, or in a layer, has a prefix before all of them.

    Raises:
        ValueError: if the model has no encoder of ours.
    """
    tokens = TABLE[0][2]
    paths = [variable.path for variable in model.weights if variable.path.endswith(tokens)]
    if len(paths) != 1:
        raise ValueError(
            f"{model.name} has {len(paths)} weights named {tokens}, and one encoder is needed."
        )
    prefix = paths[0].removesuffix(tokens)
    return {variable.path.removeprefix(prefix): variable for variable in model.weights}
