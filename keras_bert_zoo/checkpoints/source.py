"""A source of named tensors, what every reader of weights is; and the checks that all make."""

import abc
import dataclasses
import difflib
import os
import pathlib
from collections.abc import Iterator, Mapping
from types import EllipsisType

import numpy as np

# What a stored tensor is read as. Other types (quantised weights, float8, strings) are listed by
# `shapes` like all, and refused if one is asked for.
_READ_AS = {
    "float16": np.float32,
    "bfloat16": np.float32,
    "float32": np.float32,
    "float64": np.float32,
    "int32": np.int32,
    "int64": np.int64,
    "bool": np.bool_,
}
FETCH_AGAIN = "It was cut short or damaged on its way: fetch it again."
_GIT_LFS = b"version https://git-lfs.github.com/spec/v1"
_PIECE = 4 << 20  # Bytes of a memory-mapped file that are copied at a time,
_WINDOW = 16 << 20  # and that are touched before it is mapped anew.


@dataclasses.dataclass(frozen=True)
class StoredTensor:
    """What a file says of a tensor: its shape, and its type by NumPy's name or the file's own."""

    shape: tuple[int, ...]
    dtype: str


class TensorSource(abc.ABC):
    """The tensors of a checkpoint by stored name, read one at a time.

    A source is a context manager, and is of no use once closed.

    Attributes:
        origin: the file or folder they come from, for messages.
        layout: how the names are to be understood: `"hugging_face"` (PyTorch's modules),
            `"google"` (google-research/bert) or `"garden"` (TensorFlow Model Garden, an
            object-based TF 2 checkpoint).
    """

    def __init__(self, origin: str | os.PathLike, layout: str, stored: Mapping[str, StoredTensor]):
        self.origin = os.fspath(origin)
        self.layout = layout
        self._stored = dict(stored)
        self._closed = False

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes by stored name, in the order of the file. Reads no tensor."""
        return {name: stored.shape for name, stored in self._stored.items()}

    def stored(self) -> dict[str, StoredTensor]:
        """Shapes and types by stored name."""
        return dict(self._stored)

    def read(self, name: str) -> np.ndarray:
        """Reads one tensor into an array of the caller's own.

        Args:
            name: as in `shapes()`.

        Returns:
            float32 for any of float16, bfloat16, float32 and float64; int32, int64 and bool as
            stored.

        Raises:
            ValueError: if there is no such tensor, its type is another one, the source is closed,
                or the file is damaged, changed or gone.
        """
        if self._closed:
            raise ValueError(f"{self.origin} was closed, so {name!r} cannot be read from it.")
        if name not in self._stored:
            close = difflib.get_close_matches(name, self._stored, 3) or list(self._stored)[:3]
            raise ValueError(
                f"{self.origin} has no tensor {name!r}. It has {len(self._stored)}, among them: "
                f"{', '.join(close)}"
            )
        stored = self._stored[name]
        if stored.dtype not in _READ_AS:
            raise ValueError(
                f"The tensor {name!r} of {self.origin} is stored as {stored.dtype}. What can be "
                f"read is {', '.join(_READ_AS)}: quantised weights need their unquantised original."
            )
        return self._read(name, stored, np.dtype(_READ_AS[stored.dtype]))

    def close(self) -> None:
        """Lets go of the file. Closing twice is fine."""
        self._closed = True
        self._release()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    @abc.abstractmethod
    def _read(self, name: str, stored: StoredTensor, dtype: np.dtype) -> np.ndarray:
        """One tensor that is there, as an array of `dtype`."""

    @abc.abstractmethod
    def _release(self) -> None:
        """Lets go of what holds the file open."""


class MappedFile(TensorSource):
    """Tensors of a file that a library maps into memory.

    The pages of a mapping that were touched count as memory of this process until it is unmapped:
    a model of 440 MB would take 440 MB beside its weights. So a tensor is copied piece by piece,
    and the file mapped anew after every few pieces.
    """

    def __init__(self, path: str | os.PathLike):
        self._path = pathlib.Path(path)
        self._whole = False  # A subclass sets it if its handle holds the file in memory.
        self._state = _state(self._path)
        self._touched = 0
        self._handle = self._open()
        super().__init__(path, "hugging_face", self._describe(self._handle))

    @abc.abstractmethod
    def _open(self):
        """Maps the file. Whatever is wrong with it is a ValueError."""

    @abc.abstractmethod
    def _describe(self, handle) -> dict[str, StoredTensor]:
        """All tensors of the file."""

    @abc.abstractmethod
    def _piece(self, handle, name: str, rows: slice | EllipsisType) -> np.ndarray:
        """Some rows of a tensor, or all of it; a view will do."""

    def _read(self, name, stored, dtype):
        array = np.empty(stored.shape, dtype)
        for rows in _pieces(array):
            array[rows] = self._piece(self._mapping(array[rows].nbytes), name, rows)
        return array

    def _mapping(self, size):
        """The handle, new if the old one has seen enough or is gone."""
        self._touched += size
        if self._handle is not None and (self._whole or self._touched <= _WINDOW):
            return self._handle
        self._handle = None  # First, so that never two are mapped.
        self._touched = size
        if _state(self._path) != self._state:
            raise ValueError(f"{self.origin} was written to while it was read: open it again.")
        self._handle = self._open()
        return self._handle

    def _release(self):
        self._handle = None


def read_head(path: str | os.PathLike) -> bytes:
    """Checks that a file of weights is there and can be read, and returns its first bytes.

    Raises:
        ValueError: if it is missing, is a folder, is empty, may not be read, or is a pointer that
            Git LFS puts in the place of a large file.
    """
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            raise ValueError(f"{path} is no file; weights are in one.")
        with open(path, "rb") as file:
            head = file.read(64)
    except FileNotFoundError as error:
        if os.path.islink(path):
            raise ValueError(
                f"{path} is a link to {os.readlink(path)}, which is not there. In a cache of the "
                "Hugging Face hub the file was deleted: fetch the model again."
            ) from error
        raise ValueError(f"There is no file {path}.") from error
    except OSError as error:
        raise ValueError(
            f"{path} cannot be read ({error.strerror or error}). See to its rights and its disk."
        ) from error
    if not head:
        raise ValueError(f"{path} is empty. {FETCH_AGAIN}")
    if head.startswith(_GIT_LFS):
        raise ValueError(
            f"{path} is not the weights but a Git LFS pointer to them: run `git lfs pull` in the "
            "repository, or fetch the model with `hf download`."
        )
    return head


def listed(folder: str | os.PathLike) -> list[str]:
    """The names in a folder, sorted. One that may not be read is a ValueError."""
    try:
        return sorted(os.listdir(folder))
    except OSError as error:
        raise ValueError(
            f"The folder {folder} cannot be read ({error.strerror}). See to its rights."
        ) from error


def _state(path):
    """What changes when a file is replaced or written to."""
    read_head(path)
    state = os.stat(path)
    return state.st_ino, state.st_size, state.st_mtime_ns


def _pieces(array) -> Iterator[slice | EllipsisType]:
    """Indices that cover an array, each of about `_PIECE` bytes."""
    if array.nbytes <= _PIECE:
        yield ...
        return
    step = max(1, _PIECE * len(array) // array.nbytes)
    for start in range(0, len(array), step):
        yield slice(start, min(start + step, len(array)))
