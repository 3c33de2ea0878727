"""Sentences of tagged words in columns, as CoNLL's files have them."""

import dataclasses
import os
import pathlib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from keras_bert_zoo.datasets.labelled import stable_hash
from keras_bert_zoo.datasets.rows import BadRow, Rows, read_lines
from keras_bert_zoo.metrics.tagging import OUTSIDE, SCHEMES, convert_tags, split_tag

DOCUMENT = "-DOCSTART-"
_BLANKS = " \t"  # White space of Unicode may be a part of a word.
_RUN = re.compile(f"[{_BLANKS}]+")


@dataclasses.dataclass(frozen=True)
class TaggedSentence:
    """A sentence.

    Attributes:
        words: its words.
        tags: a tag for each, in IOB2; `None` where a file has none.
        line: the line of its first word, from 1.
        document: number of its document in the file, from 0.
    """

    words: tuple[str, ...]
    tags: tuple[str, ...] | None
    line: int
    document: int


def read_conll(
    path: str | os.PathLike,
    token_column: int = 0,
    tag_column: int | None = -1,
    separator: str | None = None,
    scheme: str | None = None,
    comments: str | None = None,
    labels: Sequence[str] | None = None,
    skip_bad_rows: bool = False,
) -> Rows:
    """Reads a word a line, its columns apart, and a blank line between sentences.

    A line whose word is `-DOCSTART-` stands between documents and is no sentence.

    Args:
        path: the file.
        token_column, tag_column: places of the columns, from 0, or from -1 backwards; a
            `tag_column` of `None` is a file without tags.
        separator: what parts the columns, such as a tab; by default tabs if the first row has
            one, else blanks, however many.
        scheme: how tags are written, one of `keras_bert_zoo.metrics.tagging.SCHEMES`; tags that
            are not so are an error. By default any of them is read, by the rules of conlleval.
            The examples have IOB2.
        comments: what a line that is to be passed over begins with, such as `"# "`; by default
            no line is.
        labels: those of the task, as `tag_labels` gives them; tags of other types are errors. By
            default any type is right.
        skip_bad_rows: whether to leave out sentences with a bad row, and list them.

    Returns:
        `Rows` of `TaggedSentence`.

    Raises:
        ValueError: if the file cannot be read or holds no sentence, a setting has no meaning, or
            a row is bad, with its line: it lacks a column, or one of several rows before it, its
            word is empty, or its tag is none, or of a type that is not in `labels`.
    """
    if token_column is None or token_column == tag_column:
        raise ValueError(
            "`token_column` and `tag_column` must be two columns. Received: "
            f"{token_column} and {tag_column}"
        )
    if scheme is not None and scheme not in SCHEMES:
        raise ValueError(f"`scheme` must be one of {SCHEMES}, or None. Received: {scheme!r}")
    if separator == "" or comments == "":
        raise ValueError("`separator` and `comments` are None or a text of one character or more.")
    types = None if labels is None else sorted({split_tag(label)[1] for label in labels} - {""})
    reader = _Reader(token_column, tag_column, separator, scheme, types)
    sentences = reader.sentences(read_lines(path), comments)
    return Rows.read(path, sentences, _given, skip_bad_rows)


def _given(line, sentence):
    if isinstance(sentence, BadRow):
        raise sentence
    return sentence


class _Reader:
    """The settings of `read_conll`, and what the first row tells."""

    def __init__(self, token_column, tag_column, separator, scheme, types):
        self.places = [token_column] + ([] if tag_column is None else [tag_column])
        self.separator = separator
        self.scheme = scheme
        self.types = types
        self.columns = None

    def sentences(self, lines, comments) -> Iterator[tuple[int, TaggedSentence | BadRow]]:
        """Yields sentences, or what is wrong with one, with the line to name."""
        document, rows, bad, seen = 0, [], None, False
        for line, text in lines:
            if comments is not None and text.startswith(comments):
                continue
            starts_document = _RUN.split(text, maxsplit=1)[0] == DOCUMENT
            if text.strip(_BLANKS) and not starts_document:
                seen = True
                try:
                    rows.append((line, self.parse(text)))
                except BadRow as error:
                    # The first bad row stands for its sentence.
                    bad = bad or (line, error)
                continue
            yield from self.made(rows, bad, document)
            rows, bad = [], None
            # One at the top of the file, or a second one, ends no document.
            document, seen = (document + seen, False) if starts_document else (document, seen)
        yield from self.made(rows, bad, document)

    def parse(self, text) -> list[str]:
        """Gives the word, and the tag if there are such."""
        if self.separator is None:
            self.separator = "\t" if "\t" in text else " "
        if self.separator == " ":
            fields = _RUN.split(text.strip(_BLANKS))
        else:
            fields = text.split(self.separator)
            # Some writers end every row with a separator.
            while len(fields) > (self.columns or 1) and not fields[-1].strip(_BLANKS):
                fields.pop()
        needed = max(place + 1 if place >= 0 else -place for place in self.places)
        needed = max(needed, len(self.places))
        if len(fields) < needed or len(fields) != (self.columns or len(fields)):
            wanted = f"{self.columns}, as above" if self.columns else f"{needed} or more"
            raise BadRow(
                f"{len(fields)} columns parted by {self.separator!r}, and there must be {wanted}: "
                f"{text!r:.200}. Give the `separator`, or `tag_column=None` if there are no tags."
            )
        self.columns = len(fields)
        chosen = [fields[place].strip(_BLANKS) for place in self.places]
        if not chosen[0]:
            raise BadRow(f"the word is empty: {text!r:.200}. A blank line ends a sentence.")
        if len(chosen) > 1:
            try:
                type = split_tag(chosen[1])[1]
            except ValueError as error:
                raise BadRow(f"{error}. Choose another `tag_column`.") from None
            if type and self.types is not None and type not in self.types:
                raise BadRow(
                    f"no label is of the type of the tag {chosen[1]!r}; those there are: "
                    f"{', '.join(self.types) or 'none'}"
                )
        return chosen

    def made(self, rows, bad, document):
        if bad is not None:
            yield bad
        elif rows:
            line, tags = rows[0][0], None
            try:
                if len(self.places) > 1:
                    tags = [row[1] for _, row in rows]
                    tags = tuple(convert_tags(tags, "IOB2", self.scheme))
            except ValueError as error:
                yield line, BadRow(f"in the sentence that begins here: {error}")
                return
            words = tuple(row[0] for _, row in rows)
            yield line, TaggedSentence(words, tags, line, document)


def write_conll(
    path: str | os.PathLike, sentences: Iterable[Sequence[str]], *columns: Iterable[Sequence[str]]
) -> None:
    """Writes words and columns of tags, such as gold and predicted ones.

    Columns are parted by a blank, as the official scorer reads them, or by tabs if a word has a
    blank within.

    Args:
        path: the file.
        sentences: the words of each sentence.
        *columns: for each column the tags of each sentence, one a word.

    Raises:
        ValueError: if there are not equally many sentences, or tags as words, or a word is empty
            or has a tab or an end of a line within.
    """
    rows = [list(zip(*parts, strict=True)) for parts in zip(sentences, *columns, strict=True)]
    for number, row in enumerate(rows):
        for fields in row:
            if not all(fields) or any(mark in field for field in fields for mark in "\t\n\r"):
                raise ValueError(
                    "Words and tags must not be empty, nor hold tabs or ends of lines. Sentence "
                    f"{number} has: {fields}"
                )
    blanks = any(" " in field for row in rows for fields in row for field in fields)
    between = "\t" if blanks else " "
    text = "\n".join("".join(f"{between.join(fields)}\n" for fields in row) for row in rows)
    pathlib.Path(path).write_text(text, encoding="utf-8", newline="\n")


def tag_labels(sentences: Iterable[TaggedSentence]) -> list[str]:
    """Lists the labels that the tags of sentences need: `O`, then B and I of every type."""
    types = {split_tag(tag)[1] for sentence in sentences for tag in sentence.tags or ()} - {""}
    return [OUTSIDE, *(f"{letter}-{type}" for type in sorted(types) for letter in "BI")]


def split_documents(
    sentences: Iterable[TaggedSentence], shares: Sequence[float] = (0.8, 0.1, 0.1), seed: int = 0
) -> list[list[TaggedSentence]]:
    """Splits sentences by document, the same way on every machine.

    Which part a document goes to depends on a hash of its words alone, and of the seed, so its
    place in the file is of no account, and equal documents go to one part. Where all sentences are
    of one document, each is taken for one.

    Args:
        sentences: the sentences of one file.
        shares: the parts' shares of the documents, rounded, by default of training, development
            and test; the first part has what is left.
        seed: another one gives other parts.

    Returns:
        The parts, each in the old order.

    Raises:
        ValueError: if the shares are not positive or their sum is not 1.
    """
    if not shares or min(shares) <= 0 or abs(sum(shares) - 1) > 1e-6:
        raise ValueError(f"`shares` must be positive and their sum 1. Received: {shares}")
    sentences = list(sentences)
    documents = defaultdict(list)
    single = len({sentence.document for sentence in sentences}) == 1
    for place, sentence in enumerate(sentences):
        documents[place if single else sentence.document].append(sentence)
    ranked = defaultdict(list)
    for name, document in documents.items():
        text = "\n".join(" ".join(sentence.words) for sentence in document)
        ranked[stable_hash(seed, text), text].append(name)
    groups = [ranked[key] for key in sorted(ranked)]
    part_of, last = {}, len(shares) - 1
    counts = [0] + [round(share * len(documents)) for share in shares[1:]]
    for group in groups:
        # The last part is filled first, and then those before it.
        while last and counts[last] <= 0:
            last -= 1
        counts[last] -= len(group)
        part_of.update(dict.fromkeys(group, last))
    parts = [[] for _ in shares]
    for place, sentence in enumerate(sentences):
        parts[part_of[place if single else sentence.document]].append(sentence)
    return parts
