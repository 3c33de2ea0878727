"""The files by which a folder tells sentence-transformers how tokens become one vector."""

import json
import os
import pathlib

from keras_bert_zoo.text.files import JsonObject, read_text_file

_MODULES, _SETTINGS = "modules.json", "sentence_bert_config.json"
_POOLING = pathlib.PurePath("1_Pooling", "config.json")
# Our names of the poolings by theirs.
_MODES = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_max_tokens": "max",
}


def read_sentence_transformer(folder: pathlib.Path) -> dict:
    """Reads how a folder of sentence-transformers makes vectors.

    Returns:
        `pooling` and `normalize`, as `TextEmbedder` takes them, and `sequence_length` if it is
        told; {} if the folder is none of sentence-transformers.

    Raises:
        ValueError: if a file is malformed, or asks for what `TextEmbedder` does not do.
    """
    path = folder / _MODULES
    if not os.path.lexists(path):
        return {}
    form = "It must be a JSON list of modules with `type` and `path`."
    try:
        modules = json.loads(read_text_file(path, form))
        kinds = [module["type"].split(".")[-1] for module in modules]
        places = [module["path"] for module in modules]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{path} is damaged. {form}") from error
    if kinds not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]):
        raise ValueError(
            f"{path} has the modules {', '.join(kinds)}, and only Transformer, Pooling and "
            "Normalize, in this order, can be done."
        )
    if places[1] != str(_POOLING.parent):
        raise ValueError(f"{path} has its Pooling in {places[1]!r}, and not in 1_Pooling.")
    told = {"pooling": _pooling(folder / _POOLING), "normalize": "Normalize" in kinds}
    if os.path.lexists(folder / _SETTINGS):
        length = JsonObject.read(folder / _SETTINGS).get("max_seq_length", int)
        if length is not None and length < 2:
            raise ValueError(
                f"{folder / _SETTINGS}: `max_seq_length` must be at least 2. Received: {length}"
            )
        told["sequence_length"] = length
    return told


def write_sentence_transformer(
    folder: pathlib.Path,
    pooling: str,
    normalize: bool,
    width: int,
    sequence_length: int | None,
) -> None:
    """Writes the files that `read_sentence_transformer` and sentence-transformers read.

    Args:
        folder: an existing folder.
        pooling, normalize: as `TextEmbedder` takes them.
        width: width of the vectors.
        sequence_length: tokens that texts are cut to, if that is known.
    """
    kinds = [("", "Transformer"), ("1_Pooling", "Pooling")]
    if normalize:
        kinds.append(("2_Normalize", "Normalize"))
    modules = [
        {
            "idx": number,
            "name": str(number),
            "path": path,
            "type": f"sentence_transformers.models.{kind}",
        }
        for number, (path, kind) in enumerate(kinds)
    ]
    modes = {name: ours == pooling for name, ours in _MODES.items()}
    _write(folder / _MODULES, modules)
    (folder / _POOLING.parent).mkdir()
    _write(folder / _POOLING, {"word_embedding_dimension": width, **modes})
    if sequence_length is not None:
        settings = {"max_seq_length": sequence_length, "do_lower_case": False}
        _write(folder / _SETTINGS, settings)


def _pooling(path):
    values = JsonObject.read(path)
    mode = values.get("pooling_mode", str, list)  # As later releases write it.
    if mode in _MODES.values():
        return mode
    chosen = [
        name for name in values if name.startswith("pooling_mode_") and values.get(name, bool)
    ]
    if mode is None and len(chosen) == 1 and chosen[0] in _MODES:
        return _MODES[chosen[0]]
    raise ValueError(
        f"{path} asks for the pooling {mode or ', '.join(chosen) or 'of no kind'}, and one of "
        f"{', '.join(_MODES.values())} can be done."
    )


def _write(path, values):
    path.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
