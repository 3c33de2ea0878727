"""Snapshots of a training: written whole or not at all, checksummed, the last ones kept."""

import dataclasses
import hashlib
import json
import os
import pathlib
import shutil
import warnings
from collections.abc import Mapping

import numpy as np

_ARRAYS, _STATE = "arrays.npz", "state.json"


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """What was written at a step.

    Attributes:
        step: steps done.
        arrays: numpy arrays by name.
        state: what else there is, as JSON holds it.
    """

    step: int
    arrays: Mapping[str, np.ndarray]
    state: Mapping


class Snapshots:
    """The snapshots in a folder, `step-00000100` and the like.

    Each is a folder that appears by a rename when all its bytes are on disk. A process that is
    killed leaves those before; what it was writing is removed by the next save.

    Args:
        folder: where they are; made by the first save.
        keep: how many of the last ones stay, besides the best one.

    Raises:
        ValueError: if `keep` is below 1.
    """

    def __init__(self, folder: str | os.PathLike, keep: int = 3):
        if keep < 1:
            raise ValueError(f"`keep` must be at least 1. Received: {keep}")
        self.folder = pathlib.Path(folder)
        self.keep = keep

    @property
    def steps(self) -> list[int]:
        """The steps there are snapshots of, rising."""
        names = (path.name for path in self.folder.glob("step-*") if path.is_dir())
        ends = (name.removeprefix("step-") for name in names)
        return sorted(int(end) for end in ends if end.isdigit())

    def save(
        self, step: int, arrays: Mapping[str, np.ndarray], state: Mapping, best: int | None = None
    ) -> pathlib.Path:
        """Writes a snapshot, and removes those that are no longer kept.

        Args:
            step: steps done.
            arrays: numpy arrays by name.
            state: what JSON can hold.
            best: the step of a snapshot to keep besides the last ones.

        Returns:
            The folder written.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        for leftover in self.folder.glob(".step-*.partial"):
            shutil.rmtree(leftover, ignore_errors=True)
        target = self._path(step)
        partial = target.with_name(f".{target.name}.partial")
        partial.mkdir()
        with open(partial / _ARRAYS, "wb") as file:
            np.savez(file, **arrays)
            _to_disk(file)
        content = {"step": step, "arrays_sha256": _digest(partial / _ARRAYS), "state": state}
        text = json.dumps(content)
        whole = {"sha256": hashlib.sha256(text.encode()).hexdigest(), "content": text}
        with open(partial / _STATE, "w", encoding="utf-8") as file:
            json.dump(whole, file)
            _to_disk(file)
        if target.exists():  # One that was damaged, and made again.
            shutil.rmtree(target)
        partial.rename(target)
        _folder_to_disk(self.folder)
        for old in self.steps[: -self.keep]:
            if old not in (step, best):
                shutil.rmtree(self._path(old), ignore_errors=True)
        return target

    def load(self, step: int) -> Snapshot:
        """Reads a snapshot.

        Raises:
            ValueError: if there is none, or it is damaged; the message names its folder.
        """
        path = self._path(step)
        try:
            whole = json.loads((path / _STATE).read_text(encoding="utf-8"))
            text = whole["content"]
            if hashlib.sha256(text.encode()).hexdigest() != whole["sha256"]:
                raise ValueError(f"{_STATE} has another checksum than it had when written")
            content = json.loads(text)
            if _digest(path / _ARRAYS) != content["arrays_sha256"]:
                raise ValueError(f"{_ARRAYS} has another checksum than it had when written")
            with np.load(path / _ARRAYS, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ValueError(f"The snapshot {path} is damaged: {error}.") from None
        return Snapshot(content["step"], arrays, content["state"])

    def newest(self) -> Snapshot | None:
        """Reads the newest snapshot that is whole; a warning names each damaged one.

        Returns:
            `None` if there is no snapshot.

        Raises:
            ValueError: if there are snapshots, and all are damaged.
        """
        steps = self.steps
        for step in reversed(steps):
            try:
                return self.load(step)
            except ValueError as error:
                if step == steps[0]:
                    raise ValueError(
                        f"{error} There is no other in {self.folder}: remove that folder to begin "
                        "anew."
                    ) from None
                warnings.warn(f"{error} The one before it is used.", stacklevel=2)
        return None

    def _path(self, step):
        return self.folder / f"step-{step:08d}"


def _digest(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _to_disk(file):
    file.flush()
    os.fsync(file.fileno())


def _folder_to_disk(path):
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
