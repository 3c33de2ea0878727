"""The comparison of loaders runs from end to end, on a small model."""

import importlib.util
import json
import os
import subprocess
import sys

import pytest
from checkpoint_files import Golden, write_hugging_face
from conftest import ROOT


def test_the_last_line_tells_all_figures(tmp_path):
    golden = Golden()
    weights = {k: v for k, v in golden.weights.items() if k.startswith("bert.")}
    folder = write_hugging_face(tmp_path / "model", golden, weights)
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    flags = [f"--folder={folder}", "--repeats=1", "--formats=float16", "--formats=google"]
    done = subprocess.run(
        [sys.executable, ROOT / "benchmarks" / "load.py", *flags],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    figures = json.loads(done.stdout.splitlines()[-1])
    numbers = sum(value.size for value in weights.values())
    for name in ("ours", "ours_float16", "ours_google"):
        found = figures[name]
        assert found["model_mb"] == pytest.approx(numbers * 4e-6, abs=0.06)
        assert found["over_model_mb"] == pytest.approx(found["peak_mb"] - found["model_mb"])
        assert 0 < found["seconds"] <= found["first_output_seconds"]
        assert found["output_differs_by"] < 1e-2
    assert figures["ours_google"]["output_differs_by"] < 1e-6
    assert figures["ours_minus_read_seconds"] <= figures["ours"]["seconds"]
    for name, needs in (("transformers", "torch"), ("keras_hub", "keras_hub")):
        if importlib.util.find_spec(name) and importlib.util.find_spec(needs):
            assert figures[name]["output_differs_by"] < 1e-2
        else:
            assert f"{name} is left out:" in done.stdout and name not in figures
