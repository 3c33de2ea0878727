"""Contexts and the endings to choose among: SWAG, ARC, and JSON lines.

SWAG's CSV has a header; the context is `sent1`, and each ending is `sent2`, a space, `ending0` to
`ending3`; `label` is the number of the right one, from 0.

ARC's CSV has none: a question, its choices, and the right one, A to E or 1 to 5.

A JSON line is `{"question": "...", "choices": ["...", "..."], "answer": 0}`; the answer is a number
from 0, or a letter from A.
"""

import collections
import csv
import dataclasses
import json
import os
from collections.abc import Iterable, Iterator, Sequence

import tensorflow as tf

from keras_bert_zoo.datasets.pipeline import EncodedExamples, encode
from keras_bert_zoo.datasets.rows import BadRow, Rows, read_lines

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_ENDING = "ending"


@dataclasses.dataclass(frozen=True)
class Choice:
    """A context and the endings to choose among.

    Attributes:
        context: the first text of each pair.
        endings: the second texts.
        label: the number of the right one, from 0; `None` if the file does not tell.
        id: what the file calls the example, by default the number of its line.
        line: the line of the file, from 1.
    """

    context: str
    endings: tuple[str, ...]
    label: int | None
    id: str
    line: int


def read_swag(path: str | os.PathLike, skip_bad_rows: bool = False) -> Rows:
    """Reads SWAG's CSV: `Rows` of `Choice`. Without a column `label` all labels are `None`.

    Args:
        path: the file.
        skip_bad_rows: whether to go on after a bad row, and list it.

    Raises:
        ValueError: if the file cannot be read, its header lacks a column, or a row is bad.
    """
    lines = [(line, text) for line, text in read_lines(path) if text.strip()]
    line, first = lines[0] if lines else (1, "")
    header = [name.strip() for name in _fields(first)]
    endings = [name for name in header if name.removeprefix(_ENDING).isdecimal()]
    endings.sort(key=lambda name: int(name.removeprefix(_ENDING)))
    if not {"sent1", "sent2"} <= {*header} or len(endings) < 2:
        raise ValueError(
            f"{os.fspath(path)}, line {line}: the header must name sent1, sent2, ending0, ending1 "
            f"and so on. Received: {', '.join(header)!r:.200}"
        )

    def parse(line, row):
        _check_columns(row, [len(header)])
        row = dict(zip(header, map(str.strip, row), strict=True))
        texts = [f"{row['sent2']} {row[name]}".strip() if row[name] else "" for name in endings]
        label = row.get("label")
        if label is not None and not label.isdecimal():
            raise BadRow(
                f"the label is a number from 0 to {len(endings) - 1}. Received: {label!r:.80}"
            )
        label = None if label is None else int(label)
        # The first column has no name, and numbers the rows.
        return _choice(row["sent1"], texts, label, row.get("") or str(line), line)

    return Rows.read(path, _records(lines[1:], [len(header)]), parse, skip_bad_rows)


def read_arc(path: str | os.PathLike, skip_bad_rows: bool = False) -> Rows:
    """Reads a CSV of a question, its choices and the answer: `Rows` of `Choice`.

    A row has three to five choices, or as many as most rows; blank ones at the end are none.

    Takes and raises what `read_swag` does.
    """
    lines = [(line, text) for line, text in read_lines(path) if text.strip()]
    counts = collections.Counter(len(_fields(text)) for _, text in lines)
    usual = max((n for n in counts if n > 3), key=counts.get, default=6)
    columns = sorted({5, 6, 7, usual})

    def parse(line, row):
        _check_columns(row, columns)
        question, *choices, answer = map(str.strip, row)
        while choices and not choices[-1]:
            choices.pop()
        if len(answer) != 1 or answer.upper() not in _LETTERS + "123456789":
            raise BadRow(
                "the answer, in the last column, is a letter from A or a number from 1. Received: "
                f"{answer!r:.80}"
            )
        place = int(answer) - 1 if answer.isdigit() else _LETTERS.index(answer.upper())
        return _choice(question, choices, place, str(line), line)

    return Rows.read(path, _records(lines, columns), parse, skip_bad_rows)


def read_choices(path: str | os.PathLike, skip_bad_rows: bool = False) -> Rows:
    """Reads JSON lines of `question`, `choices` and, where it is known, `answer`.

    `id` may be there too. Gives `Rows` of `Choice`; takes and raises what `read_swag` does.
    """

    def parse(line, text):
        try:
            row = json.loads(text)
        except json.JSONDecodeError as error:
            raise BadRow(f"no JSON ({error}): {text!r:.100}") from None
        question, choices = (
            map(row.get, ("question", "choices")) if type(row) is dict else [None] * 2
        )
        are_texts = isinstance(choices, list) and all(isinstance(text, str) for text in choices)
        if not isinstance(question, str) or not are_texts:
            raise BadRow(
                "an object of a string `question`, a list of strings `choices` and an `answer` is "
                f"needed. Received: {text!r:.100}"
            )
        answer, choices = row.get("answer"), [text.strip() for text in choices]
        if isinstance(answer, str) and len(answer) == 1 and answer.upper() in _LETTERS:
            answer = _LETTERS.index(answer.upper())
        if answer is not None and type(answer) is not int:
            raise BadRow(
                f"`answer` is a number from 0, or a letter from A. Received: {answer!r:.80}"
            )
        return _choice(question.strip(), choices, answer, str(row.get("id", line)), line)

    lines = ((line, text) for line, text in read_lines(path) if text.strip())
    return Rows.read(path, lines, parse, skip_bad_rows)


READERS = {"swag": read_swag, "arc": read_arc, "jsonl": read_choices}


def encode_choices(task, examples: Iterable[Choice]) -> EncodedExamples:
    """Turns examples into ids, a row for each ending, and numbers of the right ones.

    Examples may have unequally many endings; those of a batch are filled up with rows of padding.

    Args:
        task: a `MultipleChoice` with a preprocessor.
        examples: the examples; all have a label, or none has.

    Raises:
        ValueError: if there are none, or some have a label and others not.
    """
    examples = list(examples)
    bare = [example for example in examples if example.label is None]
    if 0 < len(bare) < len(examples):
        raise ValueError(
            f"{len(bare)} of {len(examples)} examples have no label, such as that of line "
            f"{bare[0].line}: take examples with labels, or without."
        )
    width = max((len(example.endings) for example in examples), default=0)
    columns = {
        "text_a": [e.context for e in examples],
        "text_b": [[*e.endings, *[""] * (width - len(e.endings))] for e in examples],
    }
    targets = None if bare else [e.label for e in examples]
    encoded = encode(task.read_texts, columns, targets, length=task.encoder.sequence_length)
    # An ending that is none has no tokens; a batch without such need not carry its row.
    is_ending = encoded.features["padding_mask"].row_lengths(axis=2) > 0
    features = {
        name: tf.ragged.boolean_mask(rows, is_ending) for name, rows in encoded.features.items()
    }
    return dataclasses.replace(encoded, features=features)


def _choice(context, endings, label, name, line):
    if not context:
        raise BadRow("there is no text to choose an ending for.")
    if len(endings) < 2:
        raise BadRow(f"there must be two choices at least, and there are {len(endings)}.")
    if not all(endings):
        raise BadRow(f"choice {endings.index('') + 1} of {len(endings)} is blank.")
    if label is not None and not 0 <= label < len(endings):
        raise BadRow(
            f"the answer is choice {label + 1} (number {label} from 0), and there are "
            f"{len(endings)} choices."
        )
    return Choice(context, tuple(endings), label, name, line)


def _check_columns(row, expected):
    if len(row) not in expected:
        needed = " or ".join(map(str, expected))
        raise BadRow(
            f"there are {len(row)} columns, and {needed} are needed. A text with a comma or a "
            f"quotation mark stands in quotes, and the mark in it twice. Received: {row!r:.200}"
        )


def _fields(*lines):
    """The fields of the CSV record that those lines begin with, and no more."""
    return next(csv.reader(f"{line}\n" for line in lines), [])


def _records(
    lines: Sequence[tuple[int, str]], columns: Sequence[int]
) -> Iterator[tuple[int, list[str]]]:
    """Yields the records of CSV lines, with the number of the first line of each.

    A quoted field may go on over several lines. A quote that nothing closes does not: it spoils
    its own line, and the next one is read anew.
    """
    place = 0
    while place < len(lines):
        number, text = lines[place]
        reader = csv.reader(f"{lines[n][1]}\n" for n in range(place, len(lines)))
        try:
            row, size = next(reader), reader.line_num
            last = lines[place + size - 1][1]
            if size > 1 and (
                len(row) not in columns or ("\n" in row[-1] and not last.endswith('"'))
            ):
                raise csv.Error
        except csv.Error:
            row, size = [text], 1
        yield number, row
        place += size
