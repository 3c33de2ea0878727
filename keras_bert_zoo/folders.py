"""Writes a folder whole or not at all."""

import contextlib
import fcntl
import os
import pathlib
import shutil
import stat
import time
from collections.abc import Iterator


@contextlib.contextmanager
def replaced_folder(
    path: str | os.PathLike, ours: set[str], kind: str = "a model"
) -> Iterator[pathlib.Path]:
    """Gives an empty folder to write in, which takes the place of `path` at the end of the block.

    The folder is `.NAME.partial` beside `path`. If the block raises, it is removed, and `path` is
    as it was. If the process is killed, `path` is as it was, or, where the kill falls between the
    two renames of the end, absent until the next call for it, which brings it back; that call also
    removes the leftovers. A link is followed: what it points to is replaced.

    Args:
        path: the folder to make or to replace. Missing parents are made.
        ours: names that may lie in a folder that is replaced, as those of what is written. One
            with a slash is of a file in a folder that may hold that alone.
        kind: what is written, for messages.

    Yields:
        The folder to write in.

    Raises:
        BlockingIOError: if another process or thread is writing the same folder.
        OSError: if nothing can be written there.
        ValueError: if `path` is a URL, a file, a folder with anything but `ours` in it, a mount
            point, or a folder that the process works in.
    """
    if "://" in os.fspath(path):
        raise ValueError(f"{path} is a URL, and {kind} is written to a local folder.")
    path = pathlib.Path(path).resolve()
    _check(path, ours, kind)  # Before anything is touched, and again when we are alone.
    partial, previous = (path.with_name(f".{path.name}.{end}") for end in ("partial", "previous"))
    missing = [parent for parent in path.parents if not parent.exists()]
    done = False
    try:
        _make_parents(path, kind)
        with alone(path):
            if previous.exists() and not path.exists():
                previous.rename(path)  # A process was killed between its two renames.
            _check(path, ours, kind)
            for leftover in (partial, previous):
                shutil.rmtree(leftover, ignore_errors=True)
            try:
                partial.mkdir()
                yield partial
                _check(path, ours, kind)
                _swap(path, partial, previous)
                done = True
            finally:
                shutil.rmtree(partial, ignore_errors=True)
    finally:
        if not done:
            with contextlib.suppress(OSError):  # One that is not empty by now stays.
                for parent in missing:
                    parent.rmdir()


def _check(path, ours, kind):
    """Refuses what must not be replaced. It may come and go meanwhile, unless we are alone."""
    try:
        if not stat.S_ISDIR(path.stat().st_mode):
            raise ValueError(f"{path} is a file, and {kind} is a folder: name a new folder.")
        children = os.listdir(path)
    except (FileNotFoundError, NotADirectoryError):
        return  # There is nothing, or (for `_make_parents` to tell) a parent is a file.
    cwd = pathlib.Path.cwd()
    if path in (cwd, *cwd.parents):
        raise ValueError(
            f"{path} is or holds the working directory, which cannot be replaced: name a folder "
            "in it."
        )
    if os.path.ismount(path):
        raise ValueError(
            f"{path} is a mount point, which cannot be replaced: name a folder in it, such as "
            f"{path / '1'}"
        )
    others = sorted(name for name in children if not _is_ours(path / name, ours))
    if others:
        raise ValueError(
            f"The folder {path} holds what is no part of {kind} ({', '.join(others)}): name a new "
            "folder."
        )


def _is_ours(child, ours):
    """Whether a file is among those, or a folder holds none but those."""
    if child.name in ours:
        return True
    within = {name.partition("/")[2] for name in ours if name.startswith(f"{child.name}/")}
    return bool(within) and child.is_dir() and set(os.listdir(child)) <= within


def _make_parents(path, kind):
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise ValueError(
            f"{kind[0].upper()}{kind[1:]} cannot be written to {path}: {error.filename} is or lies "
            "in a file."
        ) from error


def _swap(path, partial, previous):
    """Puts `partial` in the place of `path`, or leaves `path` as it was.

    The old folder is out of the way for an instant only, and is removed only when the new one is
    in its place.
    """
    try:
        if path.exists():
            path.rename(previous)
        partial.rename(path)
    except BaseException:
        if previous.exists() and not path.exists():
            previous.rename(path)
        raise
    shutil.rmtree(previous, ignore_errors=True)


@contextlib.contextmanager
def alone(path: pathlib.Path, wait: bool = False) -> Iterator[None]:
    """Keeps other processes and threads from writing `path` meanwhile.

    The lock is one of the operating system on a file beside `path`, so that it ends with its
    process, however that ends.

    Args:
        path: what is written; the folder that it is in must exist.
        wait: whether to wait for another that is writing it, rather than raise.

    Raises:
        BlockingIOError: if another process or thread is writing it.
    """
    lock = path.with_name(f".{path.name}.lock")
    while True:
        handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(handle)
            if wait:
                time.sleep(0.2)
                continue
            raise BlockingIOError(
                error.errno, "Another process is writing this folder: wait for it", str(path)
            ) from None
        except OSError:
            pass  # A file system without locks: there, two must not write one folder at once.
        try:
            if os.path.samestat(os.fstat(handle), os.stat(lock)):
                break
        except FileNotFoundError:
            pass
        os.close(handle)  # Its owner removed the file before we had the lock.
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)
        os.close(handle)
