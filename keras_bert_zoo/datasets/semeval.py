"""The files of SemEval-2010 task 8: sentences, two entities in each, and how they are related.

A sentence is three lines and a blank one:

    1<TAB>"The <e1>child</e1> was wrapped and bound into the <e2>cradle</e2>."
    Other
    Comment: ...

In a file without labels a sentence is its first line alone.
"""

import dataclasses
import os
import re
from collections.abc import Iterable, Iterator, Sequence

from keras_bert_zoo.datasets.pipeline import EncodedExamples, encode
from keras_bert_zoo.datasets.rows import BadRow, Rows, read_lines
from keras_bert_zoo.metrics.relation_answers import LABELS
from keras_bert_zoo.text.entity_tags import read_tags

_SENTENCE = re.compile(r"([0-9]+)\t(.*)")
_COMMENT = "Comment:"


@dataclasses.dataclass(frozen=True)
class RelationExample:
    """A sentence and two of its entities.

    Attributes:
        id: the number of the sentence, by which answers are scored.
        text: the sentence, without tags and the quotes around it.
        entity_1, entity_2: where they stand, `text[start:end]`, in characters.
        label: the relation; `None` if the file does not tell.
        line: the line of the file, from 1.
    """

    id: int
    text: str
    entity_1: tuple[int, int]
    entity_2: tuple[int, int]
    label: str | None
    line: int


def read_relations(
    path: str | os.PathLike,
    labels: Sequence[str] | None = LABELS,
    labelled: bool = True,
    skip_bad_rows: bool = False,
) -> Rows:
    """Reads `TRAIN_FILE.TXT`, `TEST_FILE_FULL.TXT`, `TEST_FILE.TXT`, or a file of their format.

    Args:
        path: the file.
        labels: the labels that may occur, by default the 19 of the task; `None` for any.
        labelled: whether every sentence must have a label. If not, one that is there is read.
        skip_bad_rows: whether to go on after a bad sentence, and list it.

    Returns:
        `Rows` of `RelationExample`.

    Raises:
        ValueError: if the file cannot be read or is not UTF-8, has no sentence at all, or one is
            bad: no number, no two entities, no label or one that is none, or a number given twice.
    """
    lines_of: dict[int, int] = {}

    def parse(line, block):
        example = _example(line, block, labels, labelled)
        if example.id in lines_of:
            raise BadRow(f"sentence {example.id} stands in line {lines_of[example.id]} already.")
        lines_of[example.id] = line
        return example

    return Rows.read(path, _blocks(path), parse, skip_bad_rows)


def encode_relations(task, examples: Iterable[RelationExample]) -> EncodedExamples:
    """Turns examples into ids and numbers of labels.

    Args:
        task: a `RelationClassifier` with a preprocessor.
        examples: the examples; all have a label, or none has.

    Raises:
        ValueError: if there are none, some have a label and others not, a label is not the task's,
            or the entities of one do not fit into the task's `sequence_length`.
    """
    examples = list(examples)
    bare = [example for example in examples if example.label is None]
    if 0 < len(bare) < len(examples):
        raise ValueError(
            f"{len(bare)} of {len(examples)} sentences have no label, such as that of line "
            f"{bare[0].line}: take sentences with labels, or without."
        )
    targets = None
    if not bare:
        numbers = {label: number for number, label in enumerate(task.labels)}
        for example in examples:
            if example.label not in numbers:
                raise ValueError(
                    f"Line {example.line} has the label {example.label!r}, and the task's are "
                    f"{', '.join(task.labels)}."
                )
        targets = [numbers[example.label] for example in examples]
    return encode(
        task.read_texts,
        task.columns([e.text for e in examples], [(e.entity_1, e.entity_2) for e in examples]),
        targets,
        length=task.encoder.sequence_length,
    )


def _blocks(path) -> Iterator[tuple[int, list[str]]]:
    """The lines of each sentence, with the number of the first one."""
    start, block = 0, []
    for number, line in read_lines(path):
        line = line.rstrip()
        if block and (not line or _SENTENCE.match(line)):
            yield start, block
            block = []
        if line:
            start = start if block else number
            block.append(line)
    if block:
        yield start, block


def _example(line, block, labels, labelled):
    match = _SENTENCE.fullmatch(block[0])
    if not match:
        raise BadRow(
            f'a sentence starts with a line of its number, a tab and the text: 1<TAB>"The '
            f'<e1>...</e1> ... <e2>...</e2> ...". Received: {block[0]!r:.100}'
        )
    text = match[2].strip()
    if len(text) > 1 and text[0] == text[-1] == '"':
        text = text[1:-1]
    try:
        tagged = read_tags(text)
    except ValueError as error:
        raise BadRow(str(error)) from None
    label = block[1].strip() if len(block) > 1 else None
    if label is not None and label.startswith(_COMMENT):
        label = None
    if label is None and labelled:
        raise BadRow(
            f"sentence {match[1]} has no label: the line below must be one; or read the file as "
            "one without labels (`labelled=False`)."
        )
    if label is not None and labels is not None and label not in labels:
        raise BadRow(f"the label {label!r:.80} is none of {', '.join(labels)}.")
    return RelationExample(int(match[1]), *tagged, label, line)
