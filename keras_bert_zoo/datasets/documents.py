"""Reads plain text files as documents: lists of sentences, in order."""

import codecs
import glob
import itertools
import os
import re
from collections.abc import Iterable, Iterator, Sequence

import keras

FORMATS = ("sentences", "paragraphs")
_UNIT = 10**6  # Bytes, for the progress bar.

# After a stop and what closes behind it, before what may open a sentence; Chinese and Japanese
# stops need no space.
_BOUNDARY = re.compile(
    r"""[.!?…]['"’”»)\]]*\s+(?=["'“‘«(\[]*[^\W_a-z])|[。\uff01\uff1f][」』”’\uff09)]*\s*"""
)
_NO_END = re.compile(
    r"(?:^|[\s(\"'“‘\[])(?:[A-Z]|Mr|Mrs|Ms|Dr|St|Prof|Rev|Sr|Jr|Capt|Col|Gen|Lt|No|vs|cf|al|e\.g|i\.e)\.$"
)


def read_documents(
    paths: str | os.PathLike | Sequence[str | os.PathLike],
    format: str = "sentences",
    errors: str = "strict",
    verbose: bool = True,
) -> list[list[str]]:
    """Reads all documents of text files into memory; arguments and errors as `iterate_documents`.

    Returns:
        Documents, each a list of at least one sentence without white space around it.
    """
    return list(iterate_documents(paths, format, errors, verbose))


def iterate_documents(
    paths: str | os.PathLike | Sequence[str | os.PathLike],
    format: str = "sentences",
    errors: str = "strict",
    verbose: bool = True,
) -> Iterator[list[str]]:
    """Reads documents from UTF-8 text files, one after another, with one in memory at a time.

    The end of a file ends a document. Documents without text are left out. A byte order mark is
    dropped, and lines end with any of "\\n", "\\r\\n" and "\\r".

    Args:
        paths: a path or a pattern (`*`, `**` for folders of any depth, `?`, `[...]`), or several.
            A pattern's files are read in the order of their names.
        format: "sentences": a sentence a line, an empty line between documents.
            "paragraphs": paragraphs of any number of lines, an empty line between them, two or
            more between documents (chapters, say); `split_sentences` splits the paragraphs.
        errors: "strict", or "replace" to read bytes that are not UTF-8 as U+FFFD, which
            tokenizing then drops.
        verbose: whether to show a progress bar.

    Yields:
        A document, a list of at least one sentence without white space around it.

    Raises:
        ValueError: if a pattern matches no file, a file is not UTF-8 (naming the file and line),
            or the files hold no text at all. The first at once, the others as reading comes there.
    """
    if format not in FORMATS or errors not in ("strict", "replace"):
        raise ValueError(
            f"format must be one of {FORMATS} and errors 'strict' or 'replace', "
            f"received {format!r} and {errors!r}."
        )
    files = text_files(paths)
    return _documents(files, format, errors, verbose)


def text_files(paths: str | os.PathLike | Sequence[str | os.PathLike]) -> list[str]:
    """The files that paths and patterns name, each once, in the order in which they are read.

    Raises:
        ValueError: if there is none, or a pattern matches none.
    """
    patterns = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    files = list(dict.fromkeys(path for pattern in patterns for path in _expand(pattern)))
    if not files:
        raise ValueError("No file to read: paths is empty.")
    return files


def describe_files(
    paths: str | os.PathLike | Sequence[str | os.PathLike],
) -> list[list]:
    """Path, size in bytes and time of the last change of each file: other ones tell other text."""
    found = [(path, os.stat(path)) for path in text_files(paths)]
    return [[os.path.abspath(path), each.st_size, each.st_mtime_ns] for path, each in found]


def _documents(files, format, errors, verbose):
    size = sum(os.path.getsize(path) for path in files)
    bar = keras.utils.Progbar(
        max(size // _UNIT, 1), verbose=int(verbose), unit_name="MB", interval=0.5
    )
    before, found = 0, False
    for path in files:
        with open(path, "rb") as file:
            for document in _split_documents(_lines(file, path, errors), format):
                found = True
                bar.update(min((before + file.tell()) // _UNIT, bar.target))
                yield document
            before += file.tell()
    bar.update(bar.target, finalize=True)
    if not found:
        raise ValueError(f"No text in the {len(files)} files {', '.join(files):.200}.")


def split_sentences(text: str) -> list[str]:
    """Splits a paragraph into sentences at `.`, `!`, `?` and their kin, by a few plain rules.

    A stop ends a sentence if white space follows and then no lower-case letter, and if it does not
    belong to one of the most frequent English abbreviations or to an initial. Good enough for
    segments to pretrain on; nothing is lost, runs of white space become one space.
    """
    text = " ".join(text.split())
    sentences, start = [], 0
    for match in _BOUNDARY.finditer(text):
        if _NO_END.search(text, start, match.start() + 1):
            continue
        sentences.append(text[start : match.end()].strip())
        start = match.end()
    if start < len(text):
        sentences.append(text[start:])
    return sentences


def _expand(pattern: str | os.PathLike) -> list[str]:
    pattern = os.fspath(pattern)
    # A file may have a bracket in its name: what exists is no pattern.
    if os.path.isfile(pattern):
        return [pattern]
    files = sorted(p for p in glob.glob(pattern, recursive=True) if os.path.isfile(p))
    if not files:
        hint = ""
        if os.path.isdir(pattern):
            hint = f" It is a folder: for the text files in it, {os.path.join(pattern, '*.txt')!r}."
        raise ValueError(f"No file matches {pattern!r}, seen from {os.getcwd()!r}.{hint}")
    return files


def _lines(file, path, errors) -> Iterator[str]:
    """The lines of a file without white space around them.

    Only line feeds and carriage returns end lines: str.splitlines also does at U+2028 and others.
    """
    for number, line in enumerate(file, 1):
        if number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)
        try:
            text = line.decode("utf-8", errors)
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{path}, line {number}: byte 0x{line[error.start]:02x} is not UTF-8. Convert the "
                "file, or pass errors='replace'."
            ) from None
        # What ends the line would else be an empty one of its own.
        for part in text.removesuffix("\n").removesuffix("\r").split("\r"):
            yield part.strip()


def _split_documents(lines: Iterable[str], format: str) -> Iterator[list[str]]:
    document: list[str] = []
    paragraph: list[str] = []
    empty = 0  # Lines in a row.
    for line in itertools.chain(lines, [""] * 3):
        empty = 0 if line else empty + 1
        if line:
            paragraph.append(line)
            continue
        if format == "paragraphs" and paragraph:
            document += split_sentences(" ".join(paragraph))
        else:
            document += paragraph
        paragraph = []
        if document and (empty > 1 or format == "sentences"):
            yield document
            document = []
