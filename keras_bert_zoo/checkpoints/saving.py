"""Writes a model as a Hugging Face folder."""

import json
import os
import pathlib
from collections.abc import Callable, Mapping

import keras
import numpy as np

from keras_bert_zoo.checkpoints.arrays import piece_shape
from keras_bert_zoo.checkpoints.names import name_pairs, variables_by_path
from keras_bert_zoo.config import EncoderConfig
from keras_bert_zoo.folders import replaced_folder
from keras_bert_zoo.text.tokenizer_files import write_tokenizer_files

_TOKENIZER_FILES = {
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.txt",
}
# What a folder may hold that is replaced: the names this module and its callers write.
WRITTEN = _TOKENIZER_FILES | {
    "1_Pooling/config.json",
    "config.json",
    "model.safetensors",
    "modules.json",
    "sentence_bert_config.json",
}


def save_preset(
    path: str | os.PathLike,
    model: keras.Model,
    config: EncoderConfig,
    architecture: str,
    with_pooler: bool = True,
    tokenizer=None,
    settings: Mapping | None = None,
    write_more: Callable | None = None,
) -> None:
    """Writes a Hugging Face folder, whole or not at all.

    Args:
        path: the folder. One that was written so is replaced; one that holds anything else is not.
        model: an encoder, or one with a head.
        config: the encoder's config.
        architecture: Hugging Face's class of such a model, such as `"BertForMaskedLM"`.
        with_pooler: whether to write the pooler, which not every class has.
        tokenizer: a `WordPieceTokenizer`, whose files are written too, or `None`.
        settings: further entries of `config.json`, such as labels.
        write_more: is called with the unfinished folder, to write other files.

    Raises:
        ValueError: if the model has a weight that Hugging Face's BERT has not, or the folder holds
            other files.
        ImportError: if safetensors is not installed.
    """
    try:
        from safetensors.numpy import save_file
    except ImportError as error:
        raise ImportError(
            "Writing a Hugging Face folder takes the package safetensors: "
            "pip install 'keras-bert-zoo[hub]'."
        ) from error
    _check_nothing_is_lost(path, tokenizer)
    values = config.to_hugging_face() | {"architectures": [architecture], "dtype": "float32"}
    values |= settings or {}
    with replaced_folder(pathlib.Path(path).expanduser(), WRITTEN) as folder:
        # Metadata tell transformers that the arrays are laid out as torch has them.
        save_file(
            hugging_face_arrays(model, config, architecture, with_pooler),
            folder / "model.safetensors",
            metadata={"format": "pt"},
        )
        text = json.dumps(values, indent=2, sort_keys=True, ensure_ascii=False)
        (folder / "config.json").write_text(text + "\n", encoding="utf-8")
        if tokenizer is not None:
            write_tokenizer_files(folder, tokenizer, config.max_position_embeddings)
        if write_more is not None:
            write_more(folder)


def _check_nothing_is_lost(path, tokenizer):
    """Refuses a folder that would lose its tokenizer, or is not one of a model."""
    try:
        there = set(os.listdir(path))
    except OSError:
        return  # There is none, or `replaced_folder` says what is wrong.
    files = sorted(there & _TOKENIZER_FILES)
    if files and tokenizer is None:
        raise ValueError(
            f"The folder {path} holds a tokenizer ({', '.join(files)}), and the model to be saved "
            "has none: name a new folder, or give the model its tokenizer."
        )
    if there and not {"config.json", "model.safetensors"} <= there:
        raise ValueError(
            f"The folder {path} holds {', '.join(sorted(there))}, and is not one of a model, which "
            "could be replaced: name a new folder."
        )


def hugging_face_arrays(
    model: keras.Model, config: EncoderConfig, architecture: str, with_pooler: bool = True
) -> dict[str, np.ndarray]:
    """The weights of a model by Hugging Face's names, float32 and in its layout.

    Raises:
        ValueError: if a weight has no name there.
    """
    variables = variables_by_path(model)
    arrays = {}
    for pair in name_pairs("hugging_face", config.num_hidden_layers):
        variable = variables.pop(pair.ours, None)
        if variable is None or (pair.part == "pooler" and not with_pooler):
            continue
        value = keras.ops.convert_to_numpy(variable).astype(np.float32)
        width = piece_shape(value.shape, len(pair.theirs))[-1]
        in_encoder = pair.part in ("encoder", "pooler")
        prefix = "bert." if in_encoder and architecture != "BertModel" else ""
        for number, name in enumerate(pair.theirs):
            piece = value[..., number * width : (number + 1) * width]
            piece = piece.T if pair.ours.endswith("/kernel") else piece
            arrays[prefix + name] = np.ascontiguousarray(piece)
    if variables:
        raise ValueError(
            f"Hugging Face's {architecture} has no place for these weights of {model.name}: "
            f"{', '.join(variables)}. Save it with `save`, to a .keras file."
        )
    return arrays
