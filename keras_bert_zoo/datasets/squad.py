"""SQuAD 1.1 and 2.0 files to questions, with errors that say where in the JSON they are.

Rajpurkar et al. 2016, arXiv 1606.05250, and 2018, arXiv 1806.03822.
"""

import dataclasses
import os
from collections.abc import Iterator, Sequence

from keras_bert_zoo.datasets.rows import BadRow
from keras_bert_zoo.metrics.programs import read_json
from keras_bert_zoo.text.layer import check_encodable

_LISTED = 5  # How many skipped questions a summary tells of.


@dataclasses.dataclass(frozen=True)
class Question:
    """A question about a text.

    Attributes:
        id: names it in files of predictions.
        question: what is asked.
        context: the text that may hold the answer.
        answers: the gold answers, each `(text, start)` with
            `context[start : start + len(text)] == text`; none where there is no answer, or the
            file does not tell.
        is_impossible: whether the context is known to hold no answer.
        title: that of the article.
    """

    id: str
    question: str
    context: str
    answers: tuple[tuple[str, int], ...] = ()
    is_impossible: bool = False
    title: str = ""


@dataclasses.dataclass(frozen=True)
class SquadFile:
    """What a file holds.

    Attributes:
        path: the file.
        version: what the file says of itself, such as "1.1" or "v2.0"; "" if nothing.
        examples: the questions, in the order of the file.
        skipped: the id, and place in the JSON with what is wrong, of each question left out.
    """

    path: str
    version: str
    examples: Sequence[Question]
    skipped: Sequence[tuple[str, str]] = ()

    def __iter__(self):
        return iter(self.examples)

    def __len__(self):
        return len(self.examples)

    @property
    def summary(self) -> str:
        """The skipped questions in a sentence; "" if there are none."""
        if not self.skipped:
            return ""
        first = "; ".join(f"{key}: {reason}" for key, reason in self.skipped[:_LISTED])
        more = f"; and {len(self.skipped) - _LISTED} more" if len(self.skipped) > _LISTED else ""
        return f"{len(self.skipped)} questions of {self.path} were skipped: {first}{more}"


def read_squad(path: str | os.PathLike, skip_bad_rows: bool = False) -> SquadFile:
    """Reads a file of SQuAD 1.1 or 2.0, of XQuAD or of the like; with or without answers.

    Args:
        path: the file.
        skip_bad_rows: whether a question with an answer that does not stand at its offset, or with
            the id of an earlier one, is left out and listed.

    Raises:
        ValueError: if the file cannot be read or is of another format, there is no question in it,
            or one is bad. The message names the place, such as `data[3].paragraphs[0].qas[1]`.
    """
    name = os.fspath(path)
    try:
        content = read_json(path)
    except OSError as error:
        raise ValueError(f"{name} cannot be read: {error.strerror}") from error
    version = content.get("version", "") if isinstance(content, dict) else ""
    questions: dict[str, Question] = {}
    skipped = []
    try:
        for place, title, context, row in _rows(content):
            key = _field(row, place, "id", str)
            try:
                if key in questions:
                    raise BadRow("an earlier question has this id too")
                questions[key] = _question(row, place, key, title, context, str(version))
            except BadRow as error:
                if not skip_bad_rows:
                    raise ValueError(
                        f"{place}: question {key!r}: {error}. Mend it, or pass "
                        "`skip_bad_rows=True` to leave such questions out."
                    ) from None
                skipped.append((key, f"{place}: {error}"))
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
    found = SquadFile(name, str(version), tuple(questions.values()), tuple(skipped))
    if not questions:
        raise ValueError(f"{name} holds no questions. {found.summary}".rstrip())
    return found


def _rows(content) -> Iterator[tuple[str, str, str, dict]]:
    """Yields the place in the JSON, title, context, and what is there, of every question."""
    for place, article in _items(content, "", "data"):
        title = article.get("title", "") if isinstance(article, dict) else ""
        for inner, paragraph in _items(article, place, "paragraphs"):
            context = _field(paragraph, inner, "context", str)
            check_encodable(context, f"{inner}.context")
            for innermost, row in _items(paragraph, inner, "qas"):
                yield innermost, str(title), context, row


def _question(row, place, key, title, context, version):
    question = _field(row, place, "question", str)
    check_encodable(question, f"{place}.question")
    answers = []
    told = row.get("answers") is not None
    for inner, answer in _items(row, place, "answers") if told else ():
        text = _field(answer, inner, "text", str)
        start = _field(answer, inner, "answer_start", int)
        there = context[start : start + len(text)] if start >= 0 else ""
        if not text:
            raise BadRow(f"the answer {inner.rpartition('.')[2]} is empty")
        if there != text:
            raise BadRow(f"its answer {text!r} is not at {start} of its context; {there!r} is")
        answers.append((text, start))
    # 2.0 marks what has no answer; where a file forgot to, it shows that there is none.
    unmarked = told and not answers and version.lower().lstrip("v").startswith("2")
    impossible = unmarked
    if "is_impossible" in row:
        impossible = _field(row, place, "is_impossible", bool)
    if impossible and answers:
        raise BadRow(f"it is marked as impossible, and has the answer {answers[0][0]!r}")
    return Question(key, question, context, tuple(answers), impossible, title)


_KINDS = {str: "a string", int: "a whole number", bool: "true or false", list: "a list"}


def _field(holder, place, name, kind):
    """A field of an object in the JSON, of the right kind."""
    where = f"{place}.{name}".lstrip(".")
    if not isinstance(holder, dict):
        raise ValueError(
            f"{place or 'the file'} must be an object with {name!r}, and is {holder!r:.80}. "
            "Is this a SQuAD file?"
        )
    if name not in holder:
        raise ValueError(
            f"{where} is missing; there is: {', '.join(map(repr, holder)) or 'nothing'}. Is this "
            "a SQuAD file?"
        )
    value = holder[name]
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ValueError(f"{where} must be {_KINDS[kind]}, and is {value!r:.80}.")
    return value


def _items(holder, place, name):
    """The entries of a list in the JSON, each with its place."""
    where = f"{place}.{name}".lstrip(".")
    for number, item in enumerate(_field(holder, place, name, list)):
        yield f"{where}[{number}]", item
