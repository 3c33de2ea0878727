"""Runs the scripts of `examples/` as users do, in a process of their own."""

import json
import os
import subprocess
import sys

from conftest import ROOT


def run(script, *flags, check=True):
    """The JSON of a script's last line; without `check`, all that it said."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / script, *map(str, flags)],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    if check and done.returncode:
        raise AssertionError(done.stdout + done.stderr)
    return json.loads(done.stdout.splitlines()[-1]) if check else done.stdout + done.stderr
