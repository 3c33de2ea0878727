"""Reads files in the format safetensors, through the library of that name."""

import os

from keras_bert_zoo.checkpoints.source import FETCH_AGAIN, MappedFile, StoredTensor, read_head

_NAMES = {
    "F16": "float16",
    "BF16": "bfloat16",
    "F32": "float32",
    "F64": "float64",
    "I32": "int32",
    "I64": "int64",
    "BOOL": "bool",
}


class SafetensorsFile(MappedFile):
    """The tensors of one `.safetensors` file, named as in PyTorch.

    The library checks the whole header: lengths, types, and that the tensors fill the file without
    a gap or an overlap.

    Raises:
        ImportError: if the package safetensors is not installed.
        ValueError: if the file is missing, damaged, or not in PyTorch's naming.
    """

    def __init__(self, path: str | os.PathLike):
        read_head(path)
        try:
            import safetensors
        except ImportError as error:
            raise ImportError(
                f"Reading {path} takes the package safetensors: pip install 'keras-bert-zoo[hub]'"
            ) from error
        self._library = safetensors
        super().__init__(path)

    def _open(self):
        try:
            return self._library.safe_open(self._path, framework="np")
        except (self._library.SafetensorError, OSError) as error:
            raise ValueError(
                f"{self._path} is no whole safetensors file ({error}). {FETCH_AGAIN}"
            ) from error

    def _describe(self, handle):
        framework = (handle.metadata() or {}).get("format")
        if framework in ("tf", "flax"):
            raise ValueError(
                f"{self._path} was written by the {framework} classes of transformers, whose names "
                "are not read. Save the model from its PyTorch class."
            )
        stored = {}
        for name in handle.offset_keys():
            tensor = handle.get_slice(name)
            dtype = tensor.get_dtype()
            stored[name] = StoredTensor(tuple(tensor.get_shape()), _NAMES.get(dtype, dtype))
        return stored

    def _piece(self, handle, name, rows):
        if rows is ...:
            return handle.get_tensor(name)
        return handle.get_slice(name)[rows]
