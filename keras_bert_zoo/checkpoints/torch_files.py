"""Reads PyTorch's own files, which are pickles, without running what is in them."""

import os
import pickle  # For the type of torch's error alone.
import re
from collections.abc import Mapping

from keras_bert_zoo.checkpoints.source import FETCH_AGAIN, MappedFile, StoredTensor, read_head

_ZIP = b"PK\x03\x04"
_NESTED = ("state_dict", "model")  # Where trainers put the weights beside other things.
# Before this version a file could run code even under weights_only=True (CVE-2025-32434).
_SAFE_VERSION = (2, 6)
_ASKED_FOR = re.compile(r"\bGLOBAL ([\w.]+)")


class TorchFile(MappedFile):
    """The tensors of one `.bin` or `.pt` file: a dict of tensors as `torch.save` writes it.

    Also where the dict is in another one under `"state_dict"` or `"model"`. A file of before
    PyTorch 1.6 is no zip and is read as a whole.

    Raises:
        ImportError: if PyTorch is not installed, or too old to read such files safely.
        ValueError: if the file is missing or damaged, holds anything but plain data, or no dict
            of tensors.
    """

    def __init__(self, path: str | os.PathLike):
        self._is_zip = read_head(path).startswith(_ZIP)
        self._torch = _import_torch(path)
        super().__init__(path)
        self._whole = not self._is_zip

    def _open(self):
        try:
            content = self._torch.load(
                self._path, map_location="cpu", weights_only=True, mmap=self._is_zip
            )
        except MemoryError:
            raise
        except Exception as error:  # Of a damaged pickle torch raises nearly any type.
            raise ValueError(_trouble(self._path, error)) from error
        tensors = self._tensors(content)
        if not tensors and isinstance(content, Mapping):
            for key in _NESTED:
                tensors = tensors or self._tensors(content.get(key))
        if not tensors:
            kind = type(content).__name__
            if isinstance(content, Mapping):
                kind += f" with {', '.join(map(repr, list(content)[:8])) or 'nothing in it'}"
            raise ValueError(
                f"{self._path} holds no dict of tensors but a {kind}. Save the model's weights "
                "alone: torch.save(model.state_dict(), path)."
            )
        return tensors

    def _tensors(self, content):
        if not isinstance(content, Mapping):
            return {}
        return {
            name: value.detach()
            for name, value in content.items()
            if isinstance(name, str) and isinstance(value, self._torch.Tensor)
        }

    def _describe(self, handle):
        return {name: StoredTensor(tuple(t.shape), _kind(t)) for name, t in handle.items()}

    def _piece(self, handle, name, rows):
        piece = handle[name][rows]
        return (piece.float() if piece.is_floating_point() else piece).numpy()


def _import_torch(path):
    try:
        import torch
    except ImportError as error:
        raise ImportError(
            f"{path} is a pickle, and reading it takes PyTorch: "
            "pip install 'keras-bert-zoo[torch]'. It is only ever read by "
            "torch.load(weights_only=True), which runs no code of the file, never by plain pickle. "
            "The same weights as model.safetensors need no PyTorch: convert them if you can."
        ) from error
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    if version < _SAFE_VERSION:
        raise ImportError(
            f"{path} is a pickle, and PyTorch {torch.__version__} may run code in it even with "
            "weights_only=True (CVE-2025-32434): pip install 'keras-bert-zoo[torch]' for a newer "
            "one, or convert the file to model.safetensors."
        )
    return torch


def _kind(tensor):
    """Its type by NumPy's name, and what else makes it no plain array."""
    words = [str(tensor.dtype).removeprefix("torch.")]
    if str(tensor.layout) != "torch.strided":
        words.append(str(tensor.layout).removeprefix("torch."))
    if tensor.device.type != "cpu":
        words.append(f"on device {tensor.device.type}")
    return " ".join(words)


def _trouble(path, error):
    """What went wrong, without torch's advice to load the file unsafely."""
    text = str(error)
    asked = _ASKED_FOR.search(text)
    if asked:
        return (
            f"{path} does not hold tensors alone: unpickling it would call {asked[1]}, which may "
            "run any code and is refused. Nothing of it was run. Ask its author for "
            "model.safetensors, or for torch.save(model.state_dict(), path)."
        )
    if "TorchScript" in text:
        return (
            f"{path} is a TorchScript program, not weights. Save the model's weights: "
            "torch.save(model.state_dict(), path)."
        )
    # torch's messages go on for lines, about how to load the file all the same.
    detail = "it is no pickle of tensors" if isinstance(error, pickle.UnpicklingError) else text
    detail = detail.split(". ")[0].split("\n")[0] or type(error).__name__
    return f"{path} is no whole file of torch.save ({detail}). {FETCH_AGAIN}"
