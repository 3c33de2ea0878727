"""Reads weights that are spread over several files, as an index file lists them."""

import json
import os
import pathlib
from collections.abc import Callable

from keras_bert_zoo.checkpoints.source import FETCH_AGAIN, TensorSource, read_head


class Shards(TensorSource):
    """The tensors of all files that a `.index.json` names. One file is open at a time.

    The index is `{"weight_map": {tensor: file, ...}, ...}`, as Hugging Face writes it; the files
    lie beside it.

    Args:
        index: the index file.
        open_file: opens one of its files.

    Raises:
        ValueError: if the index is none, names a file that is not a plain name in its folder or is
            missing, names a tensor that its file lacks, or two files have the same tensor.
    """

    def __init__(self, index: str | os.PathLike, open_file: Callable[[pathlib.Path], TensorSource]):
        self._open_file = open_file
        self._opened: TensorSource | None = None
        weight_map = _read_weight_map(index)
        folder = pathlib.Path(index).parent
        files = list(dict.fromkeys(weight_map.values()))
        missing = [name for name in files if not os.path.lexists(folder / name)]
        if missing:
            raise ValueError(
                f"{index} lists {len(files)} files, and {', '.join(missing[:5])} "
                f"{'is' if len(missing) == 1 else 'are'} missing from {folder}. Fetch them too."
            )
        self._file_of: dict[str, pathlib.Path] = {}
        stored = {}
        for name in files:
            with open_file(folder / name) as shard:
                for tensor, entry in shard.stored().items():
                    if tensor in stored:
                        raise ValueError(
                            f"The tensor {tensor!r} is in both {self._file_of[tensor].name} and "
                            f"{name} of {folder}. {_MIXED}"
                        )
                    stored[tensor], self._file_of[tensor] = entry, folder / name
        for tensor, name in weight_map.items():
            if self._file_of.get(tensor) != folder / name:
                raise ValueError(
                    f"{index} says that {tensor!r} is in {name}, and it is not. {_MIXED}"
                )
        super().__init__(index, "hugging_face", stored)

    def _read(self, name, stored, dtype):
        path = self._file_of[name]
        if self._opened is None or self._opened.origin != os.fspath(path):
            self._release()
            self._opened = self._open_file(path)
        return self._opened.read(name)

    def _release(self):
        if self._opened is not None:
            self._opened.close()
        self._opened = None


_MIXED = "The files are not of one model: fetch them all again, into an empty folder."


def _read_weight_map(index):
    """The file of each tensor by name, checked."""
    read_head(index)
    try:
        content = json.loads(
            pathlib.Path(index).read_text(encoding="utf-8"), object_pairs_hook=_without_repeats
        )
    except (ValueError, RecursionError, OSError) as error:
        raise ValueError(
            f"{index} is no index of weights in JSON ({error}). {FETCH_AGAIN}"
        ) from error
    weight_map = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(weight_map, dict) or not weight_map:
        raise ValueError(
            f'{index} has no "weight_map", an object with the file of each tensor. '
            f"Received: {content!r:.100}"
        )
    for tensor, name in weight_map.items():
        if not isinstance(name, str) or not _is_plain(name):
            raise ValueError(
                f"{index} says that {tensor!r} is in {name!r}, which is no name of a file beside "
                "it. An index that leads elsewhere is not followed."
            )
    return weight_map


def _is_plain(name):
    """Whether a name is that of a file in the same folder, on any system."""
    return name not in ("", ".", "..") and not set(name) & set("/\\:\0")


def _without_repeats(pairs):
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice!r} is there twice")
    return dict(pairs)
