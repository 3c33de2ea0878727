"""Reads TensorFlow checkpoints, name-based (google-research/bert) and object-based (TF 2)."""

import math
import os
import pathlib
import re
import tempfile

import numpy as np
import tensorflow as tf

from keras_bert_zoo.checkpoints.source import (
    FETCH_AGAIN,
    StoredTensor,
    TensorSource,
    listed,
    read_head,
)

_OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
_PATTERN = set("*?[\\")
# Types whose tensors take that many bytes and no more.
_SIZED = (tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.int32, tf.int64)
# What TensorFlow's reader raises for a damaged file: a status it has no class for comes as one of
# Python's own errors.
_FAULTS = (tf.errors.OpError, LookupError, OSError, RuntimeError, ValueError)


class TensorFlowCheckpoint(TensorSource):
    """The tensors of a TensorFlow checkpoint: `PREFIX.index` and `PREFIX.data-00000-of-00001`.

    Its layout is `"garden"` if it is object-based, as TF 2's `tf.train.Checkpoint` writes, and
    `"google"` if it has the variables by name. TensorFlow's checksums are verified as tensors are
    read.

    Args:
        prefix: path without `.index`.

    Raises:
        ValueError: if one of its files is missing, damaged or may not be read.
    """

    def __init__(self, prefix: str | os.PathLike):
        self._prefix = os.fspath(prefix)
        read_head(f"{self._prefix}.index")
        files = _data_files(pathlib.Path(prefix))
        self._links = None
        try:
            # Not tf.train.load_checkpoint, which takes a folder of that name for one of
            # checkpoints and follows the path that its state file has.
            self._reader = tf.compat.v1.train.NewCheckpointReader(self._plain(files))
            shapes = self._reader.get_variable_to_shape_map()
            dtypes = self._reader.get_variable_to_dtype_map()
        except _FAULTS as error:
            self._release()
            raise ValueError(self._trouble(error)) from error
        sized = [name for name in shapes if dtypes[name] in _SIZED]
        needed = sum(math.prod(shapes[name]) * dtypes[name].size for name in sized)
        size = sum(os.path.getsize(file) for file in files)
        if needed > size:
            raise ValueError(
                f"The data files of the checkpoint {self._prefix} have {size} bytes, and its "
                f"tensors take {needed}. {FETCH_AGAIN}"
            )
        stored = {name: StoredTensor(tuple(shapes[name]), dtypes[name].name) for name in shapes}
        super().__init__(prefix, "garden" if _OBJECT_GRAPH in stored else "google", stored)

    def _read(self, name, stored, dtype):
        try:
            value = self._reader.get_tensor(name)
        except _FAULTS as error:
            raise ValueError(self._trouble(error)) from error
        return np.asarray(value).astype(dtype, copy=False)

    def _plain(self, files):
        """The prefix, by way of links if TensorFlow would take it for a pattern of names."""
        if not _PATTERN & set(self._prefix):
            return self._prefix
        self._links = tempfile.TemporaryDirectory()
        for file in (pathlib.Path(f"{self._prefix}.index"), *files):
            ending = file.name.removeprefix(pathlib.Path(self._prefix).name)
            os.symlink(file.absolute(), f"{self._links.name}/model{ending}")
        return f"{self._links.name}/model"

    def _release(self):
        self._reader = None
        if self._links is not None:
            self._links.cleanup()

    def _trouble(self, error):
        detail = " ".join(str(getattr(error, "message", error)).split())
        return f"The checkpoint {self._prefix} is not whole ({detail:.300}). {FETCH_AGAIN}"


def _data_files(prefix):
    """The data files of a checkpoint, all of them, checked."""
    pattern = re.compile(re.escape(prefix.name) + r"\.data-(\d{5})-of-(\d{5})")
    found = sorted(
        (int(match[2]), int(match[1]))
        for name in listed(prefix.parent)
        if (match := pattern.fullmatch(name))
    )
    count = found[-1][0] if found else 1
    names = [f"{prefix.name}.data-{number:05}-of-{count:05}" for number in range(count)]
    missing = [name for number, name in enumerate(names) if (count, number) not in found]
    if missing:
        raise ValueError(
            f"The checkpoint {prefix} lacks {', '.join(missing[:5])}, which belongs beside "
            f"{prefix.name}.index. Fetch all its files into one folder."
        )
    files = [prefix.parent / name for name in names]
    for file in files:
        read_head(file)
    return files


def find_prefix(folder: pathlib.Path) -> pathlib.Path | None:
    """The checkpoint of a folder, by its prefix; `None` if there is none.

    Of several it is the one that the state file `checkpoint` names. Of that only the last part
    counts: its path may be of another machine, and the folder is never left.

    Raises:
        ValueError: if there are several and no state file tells which, or the folder may not be
            read.
    """
    prefixes = sorted(
        name.removesuffix(".index")
        for name in listed(folder)
        if name.endswith(".index") and not name.startswith(".")
    )
    if len(prefixes) < 2:
        return folder / prefixes[0] if prefixes else None
    latest = _latest(folder)
    if latest in prefixes:
        return folder / latest
    raise ValueError(
        f"{folder} has {len(prefixes)} checkpoints ({', '.join(prefixes)}) and no file "
        "`checkpoint` that names one of them. Put the others elsewhere, or write such a file with "
        f'the line: model_checkpoint_path: "{prefixes[-1]}"'
    )


def _latest(folder):
    """The checkpoint that the state file names, without its path; `None` if none does."""
    try:
        state = tf.train.get_checkpoint_state(os.fspath(folder))
    except (tf.errors.OpError, ValueError):  # ValueError: no text.
        return None
    return state and re.split(r"[/\\]", state.model_checkpoint_path)[-1]
