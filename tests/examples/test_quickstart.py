"""The quick start from end to end, on a small corpus of made-up text."""

import importlib
import json
import os
import random
import subprocess
import sys

import pytest
from conftest import ROOT

EXAMPLES = ROOT / "examples"
SMALL = {
    "steps": 6, "batch_size": 4, "sequence_length": 24, "vocabulary_size": 120, "draws": 2,
    "labels_per_class": 4, "finetune_epochs": 2, "finetune_batch_size": 8, "held_out_rows": 16,
}  # fmt: skip
TOPICS = {
    "kitchen": "pot spoon bread butter oven plate soup salt onion knife table cheese".split(),
    "harbour": "ship rope mast anchor tide sail captain wave deck gull storm lamp".split(),
    "garden": "rose spade hedge seed apple worm root leaf bee grass pond gate".split(),
}


@pytest.fixture(scope="module")
def corpus_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    draw = random.Random(0)
    for label, words in TOPICS.items():
        (folder / label).mkdir()
        for number in range(5):
            documents = [
                "\n".join(" ".join(draw.choices(words, k=8)).capitalize() + "." for _ in range(6))
                for _ in range(8)
            ]
            path = folder / label / f"part-{number}.txt"
            path.write_text("\n\n".join(documents) + "\n", encoding="utf-8")
    return folder


def run_quickstart(output, **settings):
    flags = [f"--{name}={value}" for name, value in {**SMALL, **settings}.items()]
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return subprocess.run(
        [sys.executable, EXAMPLES / "quickstart.py", f"--output_dir={output}", *flags],
        cwd=output.parent,
        env=os.environ | {"PYTHONPATH": path, "TF_CPP_MIN_LOG_LEVEL": "2"},
        capture_output=True,
        text=True,
    )


@pytest.fixture(scope="module")
def finished(corpus_dir, tmp_path_factory):
    output = tmp_path_factory.mktemp("run") / "out"
    done = run_quickstart(output, corpus_dir=corpus_dir)
    assert done.returncode == 0, done.stderr[-3000:]
    return output, done.stdout


def metrics_of(stdout):
    return json.loads(stdout.splitlines()[-1])


def test_the_last_line_tells_all_figures(finished):
    metrics = metrics_of(finished[1])
    assert metrics.keys() >= {
        "mlm_loss_start", "mlm_loss_end", "mlm_loss_unigram", "mlm_accuracy", "nsp_accuracy",
        "accuracy_scratch", "accuracy_pretrained", "majority_baseline", "saved_model", "seconds",
        "peak_rss_mb",
    }  # fmt: skip
    assert metrics["mlm_loss_end"] < metrics["mlm_loss_start"]
    assert metrics["nsp_share_not_next"] == 0.5
    assert len(metrics["accuracies_pretrained"]) == 2
    assert 0.333 <= metrics["majority_baseline"] <= 0.5
    assert 100 < metrics["peak_rss_mb"] < 6000
    assert sum("(it is " in line for line in finished[1].splitlines()) == 5


def test_it_leaves_its_files(finished):
    output, stdout = finished
    assert {path.name for path in output.iterdir()} == {
        "saved_model", "classifier.keras", "pretraining.keras", "vocab.txt", "metrics.json",
        "learning-curve.png",
    }  # fmt: skip
    written = json.loads((output / "metrics.json").read_text())
    assert written.items() >= metrics_of(stdout).items()
    assert [point["step"] for point in written["curve"]][-1] == SMALL["steps"]
    assert written["flags"]["steps"] == SMALL["steps"]
    assert len((output / "vocab.txt").read_text().splitlines()) == SMALL["vocabulary_size"]


def test_models_need_no_vocabulary_file_and_agree(finished, run_python):
    output, _ = finished
    vocabulary = output / "vocab.txt"
    hidden = vocabulary.rename(output.parent / "vocab.txt")
    texts = ["A gull on the mast.", "salt for the soup", "", "Bees and a rose; \u00e9t\u00e9"]
    load = "import sys, json, numpy as np\n"
    try:
        of_keras = run_python(
            load + "import keras, keras_bert_zoo\n"
            "model = keras.models.load_model(sys.argv[1])\n"
            "found = [list(a['probabilities'].values()) for a in model.classify(sys.argv[2:])]\n"
            "print(json.dumps(found))",
            output / "classifier.keras",
            *texts,
        )
        of_saved_model = run_python(
            load + "import tensorflow as tf, tensorflow_text\n"
            "run = tf.saved_model.load(sys.argv[1]).signatures['serving_default']\n"
            "found = run(text=tf.constant(sys.argv[2:]))['probabilities'].numpy().tolist()\n"
            "assert 'keras_bert_zoo' not in sys.modules\n"
            "print(json.dumps(found))",
            output / "saved_model",
            *texts,
        )
    finally:
        hidden.rename(vocabulary)
    first, second = (json.loads(out.splitlines()[-1]) for out in (of_keras, of_saved_model))
    assert len(first) == len(texts) and len(first[0]) == len(TOPICS)
    for one, other in zip(first, second, strict=True):
        assert one == pytest.approx(other, abs=1e-6)


def test_the_same_seed_gives_the_same_numbers(finished, corpus_dir, tmp_path):
    again = metrics_of(run_quickstart(tmp_path / "out", corpus_dir=corpus_dir).stdout)
    changing = ("seconds", "peak_rss_mb", "saved_model")
    first, again = (
        {key: value for key, value in metrics.items() if key not in changing}
        for metrics in (metrics_of(finished[1]), again)
    )
    assert first == again


@pytest.mark.slow
def test_no_steps_is_no_pretraining(corpus_dir, tmp_path):
    done = run_quickstart(tmp_path / "out", corpus_dir=corpus_dir, steps=0, draws=1)
    metrics = metrics_of(done.stdout)
    assert metrics["mlm_loss_end"] == metrics["mlm_loss_start"]
    assert metrics["steps"] == 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"steps": -1}, "steps"),
        ({"corpus_dir": "nowhere"}, "--corpus_dir: there is no folder 'nowhere'"),
    ],
)
def test_bad_flags_are_told_in_one_line(settings, message, tmp_path):
    done = run_quickstart(tmp_path / "out", **settings)
    assert done.returncode
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_an_output_folder_that_cannot_be_written_is_told(corpus_dir, tmp_path):
    (tmp_path / "out").write_text("a file")
    done = run_quickstart(tmp_path / "out", corpus_dir=corpus_dir)
    assert done.returncode
    assert "--output_dir: cannot write" in done.stderr and "Traceback" not in done.stderr


@pytest.fixture
def corpora(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    return importlib.import_module("quickstart_corpus")


def test_own_text_is_read_by_label_and_held_out_by_file(corpora, corpus_dir):
    corpus = corpora.folder_corpus(corpus_dir, labels_per_class=4)
    assert corpus.labels == sorted(TOPICS)
    assert not {d.source for d in corpus.train} & {d.source for d in corpus.held_out}
    assert {d.source for d in corpus.test} <= {d.source for d in corpus.held_out}
    assert all(len(d.lines) == 6 for d in corpus.train)
    assert corpus.majority == pytest.approx(1 / 3)


def test_too_little_text_is_an_error_that_counts_it(corpora, corpus_dir, tmp_path):
    with pytest.raises(ValueError, match=r"too small.*50 documents.*'garden': \(32, 8\)"):
        corpora.folder_corpus(corpus_dir, labels_per_class=50)
    with pytest.raises(ValueError, match="must hold a folder for each label"):
        corpora.folder_corpus(tmp_path, labels_per_class=4)
    (tmp_path / "only").mkdir()
    (tmp_path / "only" / "one.txt").write_text("One sentence.\n")
    with pytest.raises(ValueError, match=r"too small.*Found: 0 and 0"):
        corpora.folder_corpus(tmp_path, labels_per_class=1)
