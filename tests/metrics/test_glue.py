"""GLUE's metrics for each task, and files of labels and predictions."""

import json
import math

import numpy as np
import pytest

from keras_bert_zoo.metrics import glue
from keras_bert_zoo.metrics.glue import (
    GLUE_TASKS,
    glue_scores,
    glue_task,
    read_labels,
    read_predictions,
    write_predictions,
)
from keras_bert_zoo.metrics.programs import run

METRICS = {
    "CoLA": ["mcc"],
    "SST-2": ["accuracy"],
    "MRPC": ["accuracy", "f1"],
    "QQP": ["accuracy", "f1"],
    "STS-B": ["pearson", "spearman"],
    "MNLI-m": ["accuracy"],
    "MNLI-mm": ["accuracy"],
    "QNLI": ["accuracy"],
    "RTE": ["accuracy"],
    "WNLI": ["accuracy"],
    "AX": ["mcc"],
}


@pytest.fixture
def program(monkeypatch, capsys):
    def call(*arguments):
        monkeypatch.setattr("sys.argv", ["glue", *map(str, arguments)])
        run(glue._main)
        return json.loads(capsys.readouterr().out.splitlines()[-1])

    return call


def test_table():
    assert {name: list(task.metrics) for name, task in GLUE_TASKS.items()} == METRICS
    for task in GLUE_TASKS.values():
        assert len(task.classes) == len(task.written) == (0 if task.range else len(task.classes))
        assert task.file_name == f"{task.name}.tsv"


@pytest.mark.parametrize(
    "name, found",
    [
        ("mrpc", "MRPC"),
        ("sst2", "SST-2"),
        ("sts_b", "STS-B"),
        ("MNLI", "MNLI-m"),
        ("mnli_matched", "MNLI-m"),
        ("mnli-mm", "MNLI-mm"),
        ("MNLI_mismatched", "MNLI-mm"),
    ],
)
def test_names(name, found):
    assert glue_task(name).name == found


@pytest.mark.parametrize("name", METRICS)
def test_each_task_gives_its_metrics(name):
    task = glue_task(name)
    values = [0.5, 2.0, 4.0] if task.range else task.classes * 2
    scores = glue_scores(name, values, values)
    assert list(scores) == METRICS[name]
    assert all(value == pytest.approx(1, abs=1e-15) for value in scores.values())


def test_by_hand():
    labels, predictions = [1, 1, 1, 0, 0], [1, 1, 0, 0, 1]
    expected = {"accuracy": 0.6, "f1": pytest.approx(2 / 3)}
    assert glue_scores("MRPC", predictions, labels) == expected
    assert glue_scores("CoLA", predictions, labels) == {"mcc": pytest.approx(1 / 6)}
    # Numbers, what files have and names are one.
    names = ["equivalent" if number else "not_equivalent" for number in predictions]
    assert glue_scores("mrpc", names, np.array(labels)) == expected
    assert glue_scores("mrpc", list(map(str, predictions)), names)["f1"] == 1.0
    assert glue_scores("MNLI", [0, 1, 2], ["entailment", "neutral", "neutral"]) == {
        "accuracy": pytest.approx(2 / 3)
    }
    assert glue_scores("STS-B", [1, 3, 2], [1.0, 2.0, 3.0]) == {
        "pearson": pytest.approx(0.5),
        "spearman": pytest.approx(0.5),
    }
    assert math.isnan(glue_scores("STS-B", [1, 1, 1], [1, 2, 3])["pearson"])
    assert glue_scores("MRPC", [0, 0], [0, 1])["f1"] == 0.0


@pytest.mark.parametrize(
    "task, values, rows",
    [
        ("CoLA", ["acceptable", 0, "1"], ["1", "0", "1"]),
        ("MNLI", np.array([2, 0, 1]), ["contradiction", "entailment", "neutral"]),
        ("AX", ["neutral"], ["neutral"]),
        ("QNLI", [0, 1], ["entailment", "not_entailment"]),
        ("RTE", ["not_entailment"], ["not_entailment"]),
        ("WNLI", ["not_entailment", "entailment"], ["0", "1"]),
        ("STS-B", np.float32([-0.2, 3.14159, 5.4]), ["0.000", "3.142", "5.000"]),
    ],
)
def test_files_of_predictions(tmp_path, task, values, rows):
    path = write_predictions(tmp_path / "glue", task, values)
    assert path == tmp_path / "glue" / glue_task(task).file_name
    expected = ["index\tprediction", *(f"{row}\t{value}" for row, value in enumerate(rows))]
    assert path.read_bytes() == "".join(line + "\n" for line in expected).encode()
    again = write_predictions(tmp_path / "again", task, read_predictions(path, task))
    assert again.read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    "name, number, ones",
    [("CoLA", 1043, 719), ("SST-2", 872, 444), ("MRPC", 408, 279)],
)
def test_labels_of_real_files(shared_data, tmp_path, program, name, number, ones):
    path = shared_data / "glue" / name / "dev.tsv"
    labels = read_labels(path, name)
    assert (len(labels), sum(labels)) == (number, ones)
    predictions = write_predictions(tmp_path, name, [1] * number)
    scores = program(name, predictions, path)
    assert scores["examples"] == number
    if name == "CoLA":
        assert scores["mcc"] == 0.0
    else:
        assert scores["accuracy"] == pytest.approx(ones / number, abs=1e-12)
    if name == "MRPC":  # The published baseline of always naming the more frequent class.
        assert round(100 * scores["f1"], 1) == 81.2


def test_scores_of_a_real_file(shared_data, tmp_path, program):
    path = shared_data / "glue" / "STS-B" / "dev.tsv"
    labels = read_labels(path, "STS-B")
    assert (len(labels), min(labels), max(labels)) == (1500, 0.0, 5.0)
    predictions = write_predictions(tmp_path, "STS-B", [5 - label for label in labels])
    assert program("stsb", predictions, path)["pearson"] == pytest.approx(-1, abs=1e-6)
    constant = write_predictions(tmp_path / "constant", "STS-B", [2.5] * len(labels))
    assert program("stsb", constant, path) == {"pearson": None, "spearman": None, "examples": 1500}


def test_quotes_are_characters(tmp_path):
    path = tmp_path / "dev.tsv"
    path.write_bytes(b'\xef\xbb\xbfQuality\t#1 ID\r\n1\t"open\r\n0\tplain\r\n1\t\xe2\x80\xa8"\r\n')
    assert read_labels(path, "MRPC") == [1, 0, 1]


@pytest.mark.parametrize(
    "task, text, said",
    [
        ("SST-2", "sentence\tlabel\ngood\t1\nbad\tno\n", "line 3: one of 0, 1 is needed, not 'no'"),
        ("SST-2", "sentence\tlabel\ngood\n", "line 2: the label is in column 2, and there are 1"),
        ("MNLI", "index\tlabel\n", "line 1: MNLI-m has a column 'gold_label'"),
        ("QQP", "", "line 1: QQP has a column 'is_duplicate'"),
        ("STS-B", "score\nhigh\n", "line 2: a number is needed, not 'high'"),
        ("CoLA", "gj04\t2\t\tA cat.\n", "line 1: one of 0, 1 is needed, not '2'"),
    ],
)
def test_labels_that_are_none(tmp_path, task, text, said):
    (tmp_path / "dev.tsv").write_text(text)
    with pytest.raises(ValueError, match=f"dev.tsv, {said}"):
        read_labels(tmp_path / "dev.tsv", task)


@pytest.mark.parametrize(
    "text, said",
    [
        ("0\tentailment\n", "line 1: the header 'index', tab, 'prediction' is needed"),
        ("index\tprediction\n1\tentailment\n", "line 2: the index 0, a tab and a prediction"),
        ("index\tprediction\n0\tentailment\n1\n", "line 3: the index 1, a tab"),
        ("index\tprediction\n0\t1\n", "line 2: one of entailment, not_entailment is needed"),
    ],
)
def test_predictions_that_are_none(tmp_path, text, said):
    (tmp_path / "RTE.tsv").write_text(text)
    with pytest.raises(ValueError, match=f"RTE.tsv, {said}"):
        read_predictions(tmp_path / "RTE.tsv", "RTE")


def test_refusals():
    with pytest.raises(ValueError, match="GLUE's tasks are CoLA.*Received: 'SQuAD'"):
        glue_scores("SQuAD", [], [])
    with pytest.raises(ValueError, match="The classes of RTE are entailment.*'neutral'"):
        glue_scores("RTE", ["neutral"], ["entailment"])
    for wrong in (2, -1, 0.5, [0.1, 0.9]):
        with pytest.raises(ValueError, match="The classes of CoLA"):
            glue_scores("CoLA", [wrong], [1])
    with pytest.raises(ValueError, match="The classes of CoLA"):
        glue_scores("CoLA", np.array([[0.1, 0.9]]), [1])
    with pytest.raises(ValueError, match="1 labels and 2 predictions"):
        glue_scores("CoLA", [0, 1], [1])
    with pytest.raises(ValueError, match="STS-B is scored by numbers.*'high'"):
        glue_scores("STS-B", ["high"], [1])
    with pytest.raises(ValueError, match="NaN or infinite"):
        glue_scores("STS-B", [float("nan"), 1], [1, 2])
