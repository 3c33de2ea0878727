"""Texts and pairs of texts with labels: from tables, from GLUE's folders, and from TFDS."""

import dataclasses
import math
import os
import pathlib
from collections.abc import Iterable, Sequence

from keras_bert_zoo.datasets.rows import BadRow, Rows
from keras_bert_zoo.datasets.tables import read_table
from keras_bert_zoo.metrics.glue_tasks import GlueTask, glue_task

# GLUE's columns by name. CoLA's train.tsv and dev.tsv have no header.
_GLUE_TEXTS = {
    "CoLA": ("sentence",),
    "SST-2": ("sentence",),
    "MRPC": ("#1 String", "#2 String"),
    "QQP": ("question1", "question2"),
    "STS-B": ("sentence1", "sentence2"),
    "MNLI-m": ("sentence1", "sentence2"),
    "MNLI-mm": ("sentence1", "sentence2"),
    "QNLI": ("question", "sentence"),
    "RTE": ("sentence1", "sentence2"),
    "WNLI": ("sentence1", "sentence2"),
    "AX": ("sentence1", "sentence2"),
}
_COLA = {"text_a": 3, "label": 1}
_TFDS_TEXTS = (
    ("sentence1", "sentence2"),
    ("question1", "question2"),
    ("question", "sentence"),
    ("premise", "hypothesis"),
    ("sentence",),
    ("text",),
)


@dataclasses.dataclass(frozen=True)
class LabelledText:
    """A text or a pair, and its label.

    Attributes:
        text_a: the text, or the first one.
        text_b: the second one, if there is.
        label: its label's name, or a number for a regression; `None` in a test set.
        line: where it stands in its file, from 1.
    """

    text_a: str
    text_b: str | None = None
    label: str | float | None = None
    line: int = 0


def read_labelled_table(
    path: str | os.PathLike,
    text_a: str | int = "text",
    text_b: str | int | None = None,
    label: str | int | None = "label",
    labels: Sequence[str] | None = None,
    regression: bool = False,
    header: bool | None = None,
    form: str | None = None,
    skip_bad_rows: bool = False,
) -> Rows:
    """Reads labelled texts of a TSV, CSV or JSON-lines file.

    Args:
        path: the file.
        text_a, text_b, label: names of the columns, or numbers from 0 in a file without a header.
            A file without the label's column is a test set.
        labels: the labels that there may be; by default any.
        regression: whether labels are numbers.
        header, form, skip_bad_rows: as in `read_table`.

    Returns:
        `Rows` of `LabelledText`.

    Raises:
        ValueError: as `read_table` does; or if a label is unknown, empty or no number, and a text
            is empty; the message names the line.
    """
    columns = {"text_a": text_a, "text_b": text_b, "label": label}
    columns = {name: column for name, column in columns.items() if column is not None}
    table = read_table(path, columns, ("label",), header, form, skip_bad_rows)

    def parse(line, row):
        raw = row.get("label")
        value = None if raw is None else _label(raw, labels, regression)
        return _checked(LabelledText(row["text_a"], row.get("text_b"), value, line))

    rows = Rows.read(path, ((row["line"], row) for row in table), parse, skip_bad_rows)
    return Rows(rows.path, rows.examples, sorted([*table.skipped, *rows.skipped]))


def read_glue(
    folder: str | os.PathLike, task: str, split: str, skip_bad_rows: bool = False
) -> Rows:
    """Reads a file of a GLUE task as its site gives it.

    Args:
        folder: the task's folder, or the one that holds those of all tasks.
        task: see `glue_task`; "MNLI" is its matched set.
        split: `"train"`, `"dev"` or `"test"`, which has no labels.
        skip_bad_rows: whether to go on after a malformed row, and list it.

    Returns:
        `Rows` of `LabelledText`; labels are names as in `GLUE_TASKS`, numbers for STS-B.

    Raises:
        ValueError: if there is no such task, split or file, or a row is malformed.
    """
    chosen = glue_task(task)
    if split not in ("train", "dev", "test"):
        raise ValueError(f"GLUE's splits are train, dev and test. Received: {split!r}")
    path = _glue_file(pathlib.Path(folder), chosen, split)
    texts = _GLUE_TEXTS[chosen.name]
    columns = dict(zip(("text_a", "text_b"), texts, strict=False)) | {"label": chosen.label_column}
    if chosen.name == "CoLA":
        columns = {"text_a": "sentence"} if split == "test" else _COLA
    if split == "test":
        columns.pop("label", None)
    table = read_table(path, columns, form="tsv", skip_bad_rows=skip_bad_rows)

    def parse(line, row):
        value = None
        if "label" in row:
            value = _label(row["label"], chosen.written or None, regression=not chosen.classes)
            if chosen.classes:
                value = chosen.classes[chosen.written.index(value)]
        return _checked(LabelledText(row["text_a"], row.get("text_b"), value, line))

    rows = Rows.read(path, ((row["line"], row) for row in table), parse, skip_bad_rows)
    return Rows(rows.path, rows.examples, sorted([*table.skipped, *rows.skipped]))


def read_tfds(name: str, split: str, data_dir: str | os.PathLike | None = None) -> Rows:
    """Reads labelled texts of TensorFlow Datasets that were prepared before.

    Nothing is downloaded: without network that would take minutes to fail.

    Args:
        name: name and config, such as `"glue/mrpc"`.
        split: such as `"train"` or `"validation"`.
        data_dir: where the data sets lie; TFDS's own place by default.

    Returns:
        `Rows` of `LabelledText`; classes are named as the data set names them.

    Raises:
        ValueError: if there is no such data set on this machine, no such split, or it has no texts
            that are known.
    """
    import tensorflow_datasets as tfds

    try:
        builder = tfds.builder(name, data_dir=data_dir)
        dataset = builder.as_dataset(split=split)
    except (AssertionError, FileNotFoundError, ValueError, tfds.core.DatasetNotFoundError) as error:
        first = " ".join(str(error).split())[:200]
        raise ValueError(
            f"{name} ({split}) is not among TFDS's data sets on this machine "
            f"({data_dir or 'in the usual place'}). Where there is network, "
            f"`tfds build {name}` puts it there. ({first})"
        ) from None
    features = builder.info.features
    texts = next((names for names in _TFDS_TEXTS if set(names) <= set(features)), None)
    if texts is None:
        raise ValueError(f"{name} has no texts that are known, but: {', '.join(features)}")
    classes = getattr(features["label"], "names", None) if "label" in features else None
    examples = []
    for number, row in enumerate(tfds.as_numpy(dataset), 1):
        label = row.get("label")
        if classes is not None:
            label = None if label < 0 else classes[int(label)]
        elif label is not None:
            label = float(label)
        columns = [row[column].decode("utf-8") for column in texts]
        examples.append(LabelledText(*columns[:1], *(columns[1:] or [None]), label, number))
    return Rows(f"{name}/{split}", examples)


def columns_of(examples: Iterable[LabelledText]):
    """Texts as a column, or as a tuple of two, which is what tasks take."""
    examples = list(examples)
    first = [example.text_a for example in examples]
    if all(example.text_b is None for example in examples):
        return first
    return first, [example.text_b or "" for example in examples]


def labels_of(examples: Iterable[LabelledText]) -> list[str]:
    """The labels that stand in examples, sorted: whole numbers by size, names by their letters."""
    labels = {example.label for example in examples if example.label is not None}
    if all(str(label).lstrip("-").isdigit() for label in labels):
        return sorted(labels, key=int)
    return sorted(labels)


def _checked(example):
    if not example.text_a.strip() or (example.text_b is not None and not example.text_b.strip()):
        raise BadRow("a text is empty")
    return example


def _label(raw, labels, regression):
    if regression:
        try:
            value = float(raw)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise BadRow(f"the label must be a number: {raw!r:.80}")
        return value
    if not raw:
        raise BadRow("the label is empty")
    if labels is not None and raw not in labels:
        raise BadRow(f"the label must be among {', '.join(labels)}: {raw!r:.80}")
    return raw


def _glue_file(folder: pathlib.Path, task: GlueTask, split: str) -> pathlib.Path:
    names = {"MNLI-m": "_matched", "MNLI-mm": "_mismatched"}
    end = names.get(task.name, "") if split != "train" else ""
    home = "MNLI" if task.name in names else task.name
    places = [folder / f"{split}{end}.tsv", folder / home / f"{split}{end}.tsv"]
    for place in places:
        if place.is_file():
            return place
    raise ValueError(
        f"There is no file {places[0].name} of {task.name} in {folder} or {places[1].parent}."
    )
