"""Where tests find real data, and how they run things in a process of their own."""

import os
import pathlib
import subprocess
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared_data() -> pathlib.Path:
    """The folder of real vocabularies and texts, which is not part of this repository."""
    folder = pathlib.Path(os.environ.get("KBZ_SHARED_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no shared data: set KBZ_SHARED_DATA, or put it at {folder}")
    return folder


@pytest.fixture(scope="module", autouse=True)
def memory_given_back():
    """Frees the graphs of a file's models, which otherwise fill gigabytes over the whole suite."""
    yield
    keras.backend.clear_session()


@pytest.fixture
def run_python(tmp_path):
    """Runs Python source in a fresh process, in an empty folder; gives what it printed."""

    def run(source: str, *arguments, check: bool = True, env: dict | None = None) -> str:
        # The package must come from its installation or this checkout, not from the cwd.
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        done = subprocess.run(
            [sys.executable, "-c", source, *map(str, arguments)],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": path} | (env or {}),
            capture_output=True,
            text=True,
        )
        if check and done.returncode:
            raise AssertionError(f"exit {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done.stdout if check else done.stdout + done.stderr

    return run
