"""The answers of SemEval-2010 task 8: their labels, and their files."""

import os
import re
from collections.abc import Mapping

from keras_bert_zoo.metrics.programs import read_text

RELATIONS = (
    "Cause-Effect",
    "Component-Whole",
    "Content-Container",
    "Entity-Destination",
    "Entity-Origin",
    "Instrument-Agency",
    "Member-Collection",
    "Message-Topic",
    "Product-Producer",
)
OTHER = "Other"
DIRECTIONS = ("(e1,e2)", "(e2,e1)")
LABELS = (*(relation + direction for relation in RELATIONS for direction in DIRECTIONS), OTHER)
_LINE = re.compile(r"([0-9]+)\t([^\r]+)\r?")
_TOLD = 5  # Bad lines that a message shows.


def without_direction(label: str) -> str:
    """ "Cause-Effect(e1,e2)" is "Cause-Effect"; "Other" stays."""
    return label.removesuffix(DIRECTIONS[0]).removesuffix(DIRECTIONS[1])


def check_answers(path: str | os.PathLike) -> list[str]:
    """What the official format checker would object to in a file of answers, a sentence a line.

    A line is a number, a tab and one of `LABELS`, ended by a line feed (the last one too, or the
    official scorer refuses it). No number stands twice. The order is free.

    Raises:
        ValueError: if the file is not UTF-8.
        OSError: if it cannot be read.
    """
    return _read(path)[1]


def read_answers(path: str | os.PathLike) -> dict[int, str]:
    """Reads a file of answers: labels by the number of their sentence.

    Raises:
        ValueError: if `check_answers` has an objection; the message names the lines.
        OSError: if the file cannot be read.
    """
    answers, problems = _read(path)
    if problems:
        more = f"\n(and {len(problems) - _TOLD} more)" if len(problems) > _TOLD else ""
        raise ValueError("\n".join(problems[:_TOLD]) + more)
    return answers


def write_answers(path: str | os.PathLike, answers: Mapping[int, str]) -> None:
    """Writes a file of answers as the official scorer reads it, in the order given.

    Raises:
        ValueError: if a number is negative or none, or a label is not one of `LABELS`. Nothing is
            written then.
        OSError: if the file cannot be written.
    """
    check_labels(answers, "answers")
    text = "".join(f"{int(number)}\t{label}\n" for number, label in answers.items())
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        file.write(text)


def check_labels(answers: Mapping[int, str], name: str) -> None:
    """Raises a ValueError if a number is negative or none, or a label is not of `LABELS`."""
    for number, label in answers.items():
        # Whatever is a whole number, NumPy's included.
        if not hasattr(number, "__index__") or number < 0:
            raise ValueError(
                f"{name}: sentences are numbered by integers from 0, not by {number!r}."
            )
        if label not in LABELS:
            raise ValueError(f"{name}, sentence {number}: {_no_label(label)}")


def _read(path):
    name, answers, problems = os.fspath(path), {}, []
    *lines, rest = read_text(path).split("\n")
    for number, line in enumerate(lines, 1):
        place = f"{name}, line {number}:"
        match = _LINE.fullmatch(line)
        if not match:
            problems.append(f"{place} not a number, a tab and a label: {line!r:.100}")
        elif match[2] not in LABELS:
            problems.append(f"{place} {_no_label(match[2])}")
        elif int(match[1]) in answers:
            problems.append(f"{place} sentence {match[1]} has an answer already.")
        else:
            answers[int(match[1])] = match[2]
    if rest:
        problems.append(
            f"{name}, line {len(lines) + 1}: the line does not end, which the official scorer "
            f"refuses. Put a line feed behind {rest!r:.100}"
        )
    return answers, problems


def _no_label(label):
    if label in RELATIONS:
        return f"{label!r} has no direction: {label}(e1,e2) or {label}(e2,e1) is needed."
    return f"{label!r:.100} is not one of the labels, which are {', '.join(LABELS)}."
