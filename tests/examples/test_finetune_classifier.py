"""The script that fine-tunes classifiers, as users run it."""

import functools
import json

import keras
import numpy as np
import pytest
import scripts
from tiny import tiny_config, tiny_preprocessor

import keras_bert_zoo as kbz

run = functools.partial(scripts.run, "finetune_classifier.py")
ROWS = [("a good film", "good"), ("a bad film", "bad"), ("good tea", "good"), ("bad tea", "bad")]
SETTINGS = ("--max_seq_length=16", "--train_batch_size=2", "--learning_rate=0.01")


@pytest.fixture
def preset(tmp_path):
    keras.utils.set_random_seed(0)
    config = tiny_config(hidden_size=32, hidden_dropout_prob=0.0, initializer_range=0.1)
    task = kbz.TextEmbedder(kbz.BertEncoder(config), tiny_preprocessor())
    task.save_to_preset(tmp_path / "preset")
    return tmp_path / "preset"


def table(path, rows, columns=("text", "label"), end="\n"):
    lines = ["\t".join(map(str, row)) for row in (columns, *rows)]
    path.write_text(end.join(lines) + end, encoding="utf-8-sig", newline="")


@pytest.mark.parametrize("jit_compile", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_tables_of_named_columns(tmp_path, preset, jit_compile):
    data, out = tmp_path / "data", tmp_path / "out"
    data.mkdir()
    table(data / "train.tsv", [*ROWS, ("one column",), ("", "good"), ('a "good film', "good")])
    table(data / "dev.tsv", [*ROWS, ("a film", "unknown")], end="\r\n")
    table(data / "test.tsv", [(text,) for text, _ in ROWS[:3]], ("text",))
    flags = ("--preset", preset, "--data_dir", data, "--output_dir", out, *SETTINGS)
    told = run(*flags, check=False)
    assert "train.tsv, line 6" in told
    flags = (*flags, "--class_weights=good=2", "--seeds=1,2", "--num_train_epochs=12",
             "--do_predict", f"--jit_compile={jit_compile}")  # fmt: skip
    report = run(*flags, "--skip_bad_rows")
    # In train two rows, and in dev the one whose label was never seen.
    assert (report["skipped_rows"], report["train_examples"], report["dev_examples"]) == (3, 5, 4)
    assert report["accuracy"] == report["macro_f1"] == 1
    assert report["spread"]["accuracy"] | {"std": 0} == {
        "mean": 1, "std": 0, "min": 1, "max": 1, "values": [1, 1],
    }  # fmt: skip
    assert np.loadtxt(out / "confusion-2.tsv").tolist() == [[2, 0], [0, 2]]
    for name in ("learning-curve.png", "confusion-1.png"):
        assert (out / name).read_bytes().startswith(b"\x89PNG")
    for seed in (1, 2):
        predicted = (out / f"predictions-{seed}.txt").read_text("utf-8").splitlines()
        assert predicted == [label for _, label in ROWS[:3]]
    task = keras.saving.load_model(out / "classifier.keras")
    assert task.labels == ["bad", "good"]
    assert [answer["label"] for answer in task.classify([t for t, _ in ROWS])] == [
        label for _, label in ROWS
    ]


def test_an_unknown_label_is_named_with_its_line(tmp_path, preset):
    table(tmp_path / "train.tsv", ROWS)
    table(tmp_path / "dev.tsv", [*ROWS, ("a film", "unknown")])
    flags = ("--preset", preset, "--data_dir", tmp_path, "--output_dir", tmp_path / "out")
    told = run(*flags, check=False)
    assert "dev.tsv, line 6" in told and "'unknown'" in told and "bad, good" in told
    table(tmp_path / "dev.tsv", ROWS)
    for wrong in ("--class_weights=fine=2", "--class_weights=good", "--class_weights=good=-1"):
        assert "label=weight" in run(*flags, wrong, check=False)


def test_a_task_of_glue(tmp_path, preset):
    columns = ("Quality", "#1 ID", "#2 ID", "#1 String", "#2 String")
    rows = [(n % 2, n, n, "good tea", ("bad", "good")[n % 2] + " tea") for n in range(6)]
    folder, out = tmp_path / "glue" / "MRPC", tmp_path / "out"
    folder.mkdir(parents=True)
    for split in ("train", "dev"):
        table(folder / f"{split}.tsv", rows, columns)
    table(folder / "test.tsv", [("0", *row[1:]) for row in rows], ("index", *columns[1:]))
    report = run("--preset", preset, "--task_name=MRPC", "--data_dir", tmp_path / "glue",
                 "--output_dir", out, *SETTINGS, "--num_train_epochs=20", "--do_predict",
                 "--noexport")  # fmt: skip
    assert (report["metric"], report["f1"], report["accuracy"]) == ("f1", 1, 1)
    written = (out / "seed-1" / "MRPC.tsv").read_text("utf-8").splitlines()
    assert written == ["index\tprediction", *(f"{n}\t{n % 2}" for n in range(6))]
    history = json.loads((out / "metrics.json").read_text("utf-8"))["history"]["1"]
    assert len(history) == 20
    assert min(epoch["loss"] for epoch in history) < history[0]["loss"] / 2


def test_a_regression(tmp_path, preset):
    rows = [(text, 5 if label == "good" else 1) for text, label in ROWS]
    for split in ("train", "dev"):
        table(tmp_path / f"{split}.tsv", rows)
    report = run("--preset", preset, "--data_dir", tmp_path, "--output_dir", tmp_path / "out",
                 "--regression", *SETTINGS, "--num_train_epochs=20", "--noexport")  # fmt: skip
    assert report["metric"] == "pearson" and report["pearson"] > 0.95
