"""The scores of GLUE's tasks, and files of predictions as its site takes them.

python -m keras_bert_zoo.metrics.glue TASK PREDICTIONS LABELS

PREDICTIONS is a file of predictions ("index", tab, "prediction" as its header), LABELS another or
the task's own dev.tsv. The last line printed is JSON, in fractions.
"""

import argparse
import os
import pathlib
from collections.abc import Iterable, Sequence

import numpy as np

from keras_bert_zoo.metrics.classification import (
    accuracy,
    matthews_correlation,
    precision_recall_f1,
)
from keras_bert_zoo.metrics.correlation import pearson, spearman
from keras_bert_zoo.metrics.glue_tasks import GLUE_TASKS, GlueTask, glue_task
from keras_bert_zoo.metrics.programs import read_lines, run

__all__ = [
    "GLUE_TASKS",
    "GlueTask",
    "glue_scores",
    "glue_task",
    "read_labels",
    "read_predictions",
    "write_predictions",
]

_METRICS = {
    "accuracy": accuracy,
    "f1": lambda labels, predictions: precision_recall_f1(labels, predictions).f1,
    "mcc": matthews_correlation,
    "pearson": pearson,
    "spearman": spearman,
}
_HEADER = ["index", "prediction"]


def glue_scores(
    task: str, predictions: Sequence[str | int | float], labels: Sequence[str | int | float]
) -> dict[str, float]:
    """The scores that GLUE reports for a task, from 0 (or -1) to 1.

    Args:
        task: its name; see `glue_task`.
        predictions: classes: their numbers, their names in `GLUE_TASKS`, or what files have for
            them. Scores for STS-B.
        labels: the right ones, likewise.

    Returns:
        By name, the task's metrics: "mcc" for CoLA (and AX), "accuracy" and "f1" for MRPC and QQP,
        "pearson" and "spearman" for STS-B, "accuracy" for the others. The positive class of F1 is
        1: equivalent, duplicate. A correlation with a constant column is NaN, "mcc" and "f1" are
        0.0 where they would divide by zero.

    Raises:
        ValueError: if there is no such task or class, or the numbers of the two differ.
    """
    chosen = glue_task(task)
    predictions, labels = _values(chosen, predictions), _values(chosen, labels)
    return {name: _METRICS[name](labels, predictions) for name in chosen.metrics}


def write_predictions(
    folder: str | os.PathLike, task: str, predictions: Iterable[str | int | float]
) -> pathlib.Path:
    """Writes a file of predictions for GLUE's site, which wants one for each task in a zip.

    It has a header and the rows 0, 1, ... with numbers for the classes of CoLA, SST-2, MRPC, QQP
    and WNLI, names for those of the others, and three decimals for STS-B, whose scores are cut to
    the range from 0 to 5.

    Args:
        folder: where to write it; it is made if need be. The file is named after the task.
        task: see `glue_task`; "MNLI" is its matched set.
        predictions: see `glue_scores`, in the order of the test set.

    Returns:
        The path of the file.

    Raises:
        ValueError: if there is no such task or class.
        OSError: if the file cannot be written.
    """
    chosen = glue_task(task)
    values = _values(chosen, predictions)
    if chosen.range:
        written = [f"{value:.3f}" for value in np.clip(values, *chosen.range)]
    else:
        written = [chosen.written[value] for value in values]
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / chosen.file_name
    rows = ["\t".join(_HEADER), *(f"{row}\t{value}" for row, value in enumerate(written))]
    path.write_text("\n".join(rows) + "\n", encoding="utf-8", newline="\n")
    return path


def read_predictions(path: str | os.PathLike, task: str) -> list[int] | list[float]:
    """Reads a file of predictions: numbers of classes, or scores, in the order of their index.

    Raises:
        ValueError: if the header or a row is not as it should be; the message names the line.
        OSError: if the file cannot be read.
    """
    name, lines, chosen = os.fspath(path), read_lines(path), glue_task(task)
    if not lines or lines[0].split("\t") != _HEADER:
        raise ValueError(
            f"{name}, line 1: the header 'index', tab, 'prediction' is needed. "
            f"Received: {lines[:1]!r:.200}"
        )
    values = []
    for row, line in enumerate(lines[1:]):
        index, tab, text = line.partition("\t")
        if not tab or index != str(row):
            raise ValueError(
                f"{name}, line {row + 2}: the index {row}, a tab and a prediction are needed. "
                f"Received: {line!r:.200}"
            )
        values.append(_value_of_file(chosen, text, f"{name}, line {row + 2}"))
    return values


def read_labels(path: str | os.PathLike, task: str) -> list[int] | list[float]:
    """Reads the labels of a task's train.tsv or dev.tsv as GLUE has them.

    Quotes are characters like any other, as in these files.

    Raises:
        ValueError: if there is no column of labels, or a label is none; the message names the line.
        OSError: if the file cannot be read.
    """
    name, lines, chosen = os.fspath(path), read_lines(path), glue_task(task)
    column, first = chosen.label_column, 0
    if isinstance(column, str):
        header = lines[0].split("\t") if lines else []
        if column not in header:
            raise ValueError(
                f"{name}, line 1: {chosen.name} has a column {column!r}. Received: {header!r:.300}"
            )
        column, first = header.index(column), 1
    values = []
    for number, line in enumerate(lines[first:], first + 1):
        fields = line.split("\t")
        if len(fields) <= column:
            raise ValueError(
                f"{name}, line {number}: the label is in column {column + 1}, and there are "
                f"{len(fields)}: {line!r:.200}"
            )
        values.append(_value_of_file(chosen, fields[column], f"{name}, line {number}"))
    return values


def _value_of_file(task, text, place):
    try:
        if task.range:
            return float(text)
        return task.written.index(text)
    except ValueError:
        needed = "a number" if task.range else f"one of {', '.join(task.written)}"
        raise ValueError(f"{place}: {needed} is needed, not {text!r:.100}.") from None


def _values(task, values):
    """Scores as floats, or classes as numbers."""
    values = values.tolist() if isinstance(values, np.ndarray) else list(values)
    if task.range:
        try:
            scores = [float(value) for value in values]
        except (TypeError, ValueError) as error:
            raise ValueError(f"{task.name} is scored by numbers: {error}") from error
        if not np.isfinite(scores).all():
            raise ValueError(
                f"{task.name} is scored by numbers, and there are NaN or infinite ones."
            )
        return scores
    numbers = {name: number for number, name in enumerate(task.written)}
    numbers |= {name: number for number, name in enumerate(task.classes)}
    numbers |= {number: number for number in range(len(task.classes))}
    for value in values:
        # A list is no key: rows of logits come this way.
        if isinstance(value, (list, np.ndarray)) or value not in numbers:
            raise ValueError(
                f"The classes of {task.name} are {', '.join(task.classes)}, numbered from 0. "
                f"Received: {value!r:.100}"
            )
    return [numbers[value] for value in values]


def _main() -> dict:
    parser = argparse.ArgumentParser(
        prog="python -m keras_bert_zoo.metrics.glue", description=__doc__.split("\n")[0]
    )
    parser.add_argument("task", metavar="TASK", help=f"One of {', '.join(GLUE_TASKS)}.")
    parser.add_argument("predictions", metavar="PREDICTIONS", help="File of predictions.")
    parser.add_argument("labels", metavar="LABELS", help="File of predictions, or GLUE's dev.tsv.")
    arguments = parser.parse_args()
    predictions = read_predictions(arguments.predictions, arguments.task)
    first = next(iter(read_lines(arguments.labels)), "")
    reader = read_predictions if first.split("\t") == _HEADER else read_labels
    labels = reader(arguments.labels, arguments.task)
    return glue_scores(arguments.task, predictions, labels) | {"examples": len(labels)}


if __name__ == "__main__":
    run(_main)
