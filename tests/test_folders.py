"""A folder is written whole or not at all, whatever happens meanwhile."""

import concurrent.futures
import errno
import fcntl
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import pytest

from keras_bert_zoo.folders import replaced_folder

OURS = {"a", "b", "sub"}
ALONE = """
import importlib.util, os, pathlib, signal, sys, time

# The package without its __init__, which loads TensorFlow: writing a folder needs none.
spec = importlib.util.find_spec("keras_bert_zoo")
sys.modules["keras_bert_zoo"] = importlib.util.module_from_spec(spec)
from keras_bert_zoo.folders import replaced_folder

target = pathlib.Path(sys.argv[1])
"""


def write(path, text, ours=OURS):
    with replaced_folder(path, ours) as folder:
        assert folder.is_dir()
        assert not list(folder.iterdir())
        (folder / "a").write_text(text)
        (folder / "sub").mkdir()
        (folder / "sub" / "b").write_text(text)


def read(path):
    texts = {(path / name).read_text() for name in ("a", "sub/b")}
    assert len(texts) == 1, "a mixture"
    return texts.pop()


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("name", ["1", "deep/er/1", "my model \u5317\u4eac", ".hidden", "1/"])
def test_makes_and_replaces(tmp_path, name):
    target = tmp_path / name
    for text in ("first", "second"):
        write(f"{tmp_path}/{name}", text)
        assert read(target) == text
        assert names(target) == ["a", "sub"]
        assert names(target.parent) == [target.name]
    with replaced_folder(target, OURS) as folder:
        (folder / "a").write_text("alone")
    assert names(target) == ["a"]  # Nothing of the old one is left in the new one.


def test_relative_to_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write("1", "first")
    (tmp_path / "2").mkdir()
    write(pathlib.Path("2"), "into an empty one")
    assert names(tmp_path) == ["1", "2"]


@pytest.mark.parametrize(
    "error", [ValueError("no"), KeyboardInterrupt(), OSError(errno.ENOSPC, "No space left")]
)
def test_a_failure_changes_nothing(tmp_path, error):
    target = tmp_path / "1"
    write(target, "old")
    for path in (target, tmp_path / "new" / "deep"):
        with pytest.raises(type(error)), replaced_folder(path, OURS) as folder:
            (folder / "a").write_text("half")
            raise error
    assert names(tmp_path) == ["1"]
    assert read(target) == "old"


@pytest.mark.parametrize("which", [".partial", "1", "both"])
@pytest.mark.parametrize("error", [OSError("disk trouble"), KeyboardInterrupt()])
def test_a_rename_that_fails_changes_nothing(tmp_path, monkeypatch, which, error):
    target = tmp_path / "1"
    write(target, "old")
    rename = pathlib.Path.rename

    def failing(self, to):
        if self.name.endswith(which):
            raise error
        if which == "both" and self.name != "1":
            raise error
        return rename(self, to)

    monkeypatch.setattr(pathlib.Path, "rename", failing)
    with pytest.raises(type(error)):
        write(target, "new")
    monkeypatch.undo()
    if which == "both":  # Not even the old one could go back: it is kept for the next call.
        assert names(tmp_path) == [".1.previous"]
        with pytest.raises(ZeroDivisionError), replaced_folder(target, OURS):
            raise ZeroDivisionError
    assert names(tmp_path) == ["1"]
    assert read(target) == "old"


def test_what_is_not_ours_is_never_removed(tmp_path):
    target = tmp_path / "1"
    write(target, "old")
    said = r"no part of a cake \(notes.txt\): name a new folder"
    with pytest.raises(ValueError, match=said), replaced_folder(target, OURS, "a cake"):
        (target / "notes.txt").write_text("written meanwhile")
    with pytest.raises(ValueError, match=r"no part of a model \(notes.txt\)"):
        write(target, "new")
    assert (target / "notes.txt").read_text() == "written meanwhile"
    assert names(tmp_path) == ["1"]
    assert read(target) == "old"


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("gs://bucket/1", "is a URL, and a model is written to a local folder"),
        ("file", "is a file, and a model is a folder"),
        ("/dev/null", "is a file, and a model is a folder"),
        ("file/1", r"A model cannot be written to .*/file/1: .*/file is or lies in a file"),
        ("file/1/2", r"is or lies in a file"),
        (".", "is or holds the working directory"),
        ("", "is or holds the working directory"),
        ("..", "is or holds the working directory"),
        ("/", "is or holds the working directory"),
        ("/proc", "is a mount point, .* such as /proc/1"),
    ],
)
def test_refusals(tmp_path, monkeypatch, path, said):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    pathlib.Path("file").write_text("precious")
    if path == "/proc" and not os.path.ismount(path):
        pytest.skip("no /proc here")
    with pytest.raises(ValueError, match=said):
        write(path, "new", ours=OURS | {"file", "here"})
    assert names(pathlib.Path()) == ["file"]
    assert pathlib.Path("file").read_text() == "precious"


def test_links_are_followed(tmp_path):
    (tmp_path / "real").mkdir()
    for name in ("there", "not_yet"):
        (tmp_path / name).symlink_to(tmp_path / "real" / name)
    write(tmp_path / "real" / "there", "old")
    for name in ("there", "not_yet"):
        write(tmp_path / name, "new")
        assert (tmp_path / name).is_symlink()
        assert read(tmp_path / "real" / name) == "new"
    assert names(tmp_path / "real") == ["not_yet", "there"]
    assert names(tmp_path) == ["not_yet", "real", "there"]


def test_a_parent_that_cannot_be_written():
    """Its error comes as it is, and names the path. The superuser plays somebody else."""
    somebody = 65534
    with tempfile.TemporaryDirectory() as parent:
        os.chmod(parent, 0o555)
        superuser = os.geteuid() == 0
        if superuser:
            os.seteuid(somebody)
        try:
            for name in ("1", "deep/1"):
                with pytest.raises(PermissionError, match=parent):
                    write(pathlib.Path(parent) / name, "new")
        finally:
            if superuser:
                os.seteuid(0)
        os.chmod(parent, 0o755)
        assert not os.listdir(parent)


@pytest.mark.parametrize("when", ["in the block", "between the renames"])
def test_a_killed_process_leaves_the_old_folder_to_the_next(tmp_path, run_python, when):
    target = tmp_path / "1"
    write(target, "old")
    kill = """
def kill(*arguments):
    os.kill(os.getpid(), signal.SIGKILL)

rename = pathlib.Path.rename
if sys.argv[2] == "between the renames":
    pathlib.Path.rename = lambda self, to: (kill if self.name == ".1.partial" else rename)(self, to)
with replaced_folder(target, {"a", "sub"}) as folder:
    (folder / "a").write_text("half")
    if sys.argv[2] == "in the block":
        kill()
"""
    with pytest.raises(AssertionError, match=f"exit -{int(signal.SIGKILL)}"):
        run_python(ALONE + kill, target, when)
    if when == "in the block":
        assert read(target) == "old"
    else:
        assert not target.exists()
    assert ".1.partial" in names(tmp_path)
    with pytest.raises(ZeroDivisionError), replaced_folder(target, OURS):
        raise ZeroDivisionError
    assert names(tmp_path) == ["1"]
    assert read(target) == "old"
    write(target, "new")
    assert names(tmp_path) == ["1"]
    assert read(target) == "new"


def test_a_second_process_is_refused_while_the_first_writes(tmp_path):
    target = tmp_path / "1"
    write(target, "old")
    slow = """
with replaced_folder(target, {"a", "sub"}) as folder:
    (folder / "a").write_text("first")
    (folder / "sub").mkdir()
    print("writing", flush=True)
    sys.stdin.readline()
    (folder / "sub" / "b").write_text("first")
"""
    root = pathlib.Path(__file__).parent.parent
    path = os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH")]))
    with subprocess.Popen(
        [sys.executable, "-c", ALONE + slow, str(target)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": path},
        text=True,
    ) as first:
        assert first.stdout.readline() == "writing\n"
        with pytest.raises(BlockingIOError, match=f"Another process is writing.*{target}"):
            write(target, "second")
        write(tmp_path / "2", "another folder is free")
        assert read(target) == "old"
        first.communicate("go on\n", timeout=60)
        assert first.returncode == 0
    assert read(target) == "first"
    write(target, "second")
    assert read(target) == "second"
    assert names(tmp_path) == ["1", "2"]


def test_many_processes_and_threads_never_make_a_mixture(tmp_path, run_python):
    target = tmp_path / "1"
    writer = """
done = 0
end = time.monotonic() + 1.5
while time.monotonic() < end:
    try:
        with replaced_folder(target, {"a", "sub"}) as folder:
            (folder / "a").write_text(sys.argv[2] + str(done))
            (folder / "sub").mkdir()
            (folder / "sub" / "b").write_text(sys.argv[2] + str(done))
        done += 1
    except BlockingIOError:
        time.sleep(0.001)
print(done)
"""

    def in_thread(_):
        done, end = 0, time.monotonic() + 1.5
        while time.monotonic() < end:
            try:
                write(target, f"thread {done}")
                done += 1
            except BlockingIOError:
                time.sleep(0.001)
        return done

    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        processes = [
            pool.submit(run_python, ALONE + writer, target, f"process {i} ") for i in range(4)
        ]
        threads = [pool.submit(in_thread, i) for i in range(2)]
        done = [int(each.result()) for each in processes + threads]
    assert sum(count > 0 for count in done) >= 2, done
    assert read(target)
    assert names(tmp_path) == ["1"]


def test_a_file_system_without_locks_will_do(tmp_path, monkeypatch):
    def refuse(*arguments):
        raise OSError(errno.ENOTSUP, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", refuse)
    write(tmp_path / "1", "old")
    write(tmp_path / "1", "new")
    assert read(tmp_path / "1") == "new"
    assert names(tmp_path) == ["1"]
