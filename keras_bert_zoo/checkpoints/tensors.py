"""Opens the weights in a folder or a file, of whatever kind they are."""

import os
import pathlib

from keras_bert_zoo.checkpoints.safetensors_files import SafetensorsFile
from keras_bert_zoo.checkpoints.shards import Shards
from keras_bert_zoo.checkpoints.source import TensorSource, listed, read_head
from keras_bert_zoo.checkpoints.tensorflow_files import TensorFlowCheckpoint, find_prefix
from keras_bert_zoo.checkpoints.torch_files import TorchFile

__all__ = ["TensorSource", "open_tensors"]

# In a folder with several the first is read.
_FILES = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
)
_PICKLES = (".bin", ".pt", ".pth")
# What is not read, by how the name ends, and by whom it was written.
_NOT_READ = {
    ".h5": "transformers' TensorFlow classes, or Keras",
    ".msgpack": "Flax",
    ".onnx": "ONNX",
    ".gguf": "llama.cpp",
    ".ot": "rust-bert",
    ".pb": "a SavedModel",
}


def open_tensors(path: str | os.PathLike) -> TensorSource:
    """Opens weights for reading, tensor by tensor.

    In a folder the first of these is read: `model.safetensors`, `model.safetensors.index.json`
    with its files, `pytorch_model.bin`, `pytorch_model.bin.index.json` with its files, a TensorFlow
    checkpoint (of several the one that the file `checkpoint` names).

    Args:
        path: a folder; or a file: `.safetensors`, `.bin`, `.pt`, an index of one of them, or the
            prefix of a TensorFlow checkpoint, with or without `.index`.

    Returns:
        A source; close it, or use it in a `with` statement.

    Raises:
        ImportError: if the package that reads such a file is not installed.
        ValueError: if there are no weights that can be read, or they are damaged or incomplete.
    """
    if not isinstance(path, str | os.PathLike) or not os.fspath(path):
        raise ValueError(f"Weights are named by their folder or file. Received: {path!r}")
    path = pathlib.Path(path)
    if os.path.isdir(path):
        return _open_folder(path)
    if path.suffix != ".index" and os.path.lexists(f"{path}.index"):
        return TensorFlowCheckpoint(path)
    return _open_file(path)


def _open_folder(folder):
    for name in _FILES:
        # A link that leads nowhere is there too: better its error than other weights.
        if os.path.lexists(folder / name):
            return _open_file(folder / name)
    prefix = find_prefix(folder)
    if prefix is not None:
        return TensorFlowCheckpoint(prefix)
    names = listed(folder)
    others = [name for name in names if pathlib.Path(name).suffix in _NOT_READ]
    raise ValueError(
        f"{folder} holds no weights that can be read. Looked for {', '.join(_FILES)} and a "
        "TensorFlow checkpoint (*.index); there "
        + (
            f"is {', '.join(names[:20])}{', ...' if len(names) > 20 else ''}"
            if names
            else "is nothing"
        )
        + "."
        + _not_read(others)
    )


def _open_file(path):
    if path.name.endswith(".safetensors.index.json"):
        return Shards(path, SafetensorsFile)
    if path.name.endswith(".bin.index.json"):
        return Shards(path, TorchFile)
    if path.suffix == ".safetensors":
        return SafetensorsFile(path)
    if path.suffix in _PICKLES:
        return TorchFile(path)
    if path.suffix == ".index":
        return TensorFlowCheckpoint(path.with_suffix(""))
    read_head(path)  # Says so if it is not there at all.
    raise ValueError(
        f"{path} is no file of weights that can be read: these end in .safetensors, "
        f"{', '.join(_PICKLES)} or .index.{_not_read([path.name])}"
    )


def _not_read(names):
    """What becomes of files that others wrote; nothing if there are none."""
    known = [
        f"{name} (by {_NOT_READ[pathlib.Path(name).suffix]})"
        for name in names
        if pathlib.Path(name).suffix in _NOT_READ
    ]
    if not known:
        return ""
    return (
        f" Not read: {', '.join(known)}. Convert them to model.safetensors; transformers before "
        "version 5 does so for tf_model.h5 and flax_model.msgpack, with from_tf=True or "
        "from_flax=True in from_pretrained, then save_pretrained."
    )
