"""Reads plain text files as documents: lists of sentences, in order."""

import glob
import os
import re
from collections.abc import Iterator, Sequence

import keras

FORMATS = ("sentences", "paragraphs")

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
    """Reads documents from UTF-8 text files.

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

    Returns:
        Documents, each a list of at least one sentence without white space around it.

    Raises:
        ValueError: if a pattern matches no file, a file is not UTF-8 (naming the file and line),
            or the files hold no text at all.
    """
    if format not in FORMATS or errors not in ("strict", "replace"):
        raise ValueError(
            f"format must be one of {FORMATS} and errors 'strict' or 'replace', "
            f"received {format!r} and {errors!r}."
        )
    patterns = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    files = list(dict.fromkeys(path for pattern in patterns for path in _expand(pattern)))
    if not files:
        raise ValueError("No file to read: paths is empty.")
    bar = keras.utils.Progbar(len(files), verbose=int(verbose), unit_name="file", interval=0.5)
    documents: list[list[str]] = []
    for number, path in enumerate(files, 1):
        documents += _split_documents(_read_text(path, errors), format)
        bar.update(number)
    if not documents:
        raise ValueError(f"No text in the {len(files)} files that {patterns} match.")
    return documents


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


def _read_text(path: str, errors: str) -> str:
    with open(path, "rb") as file:
        content = file.read()
    try:
        text = content.decode("utf-8-sig", errors)
    except UnicodeDecodeError as error:
        # The codec counts from behind the byte order mark.
        bad = error.start + (3 if content.startswith(b"\xef\xbb\xbf") else 0)
        line = content.count(b"\n", 0, bad) + 1
        raise ValueError(
            f"{path}, line {line}: byte 0x{content[bad]:02x} is not "
            "UTF-8. Convert the file, or pass errors='replace'."
        ) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _split_documents(text: str, format: str) -> Iterator[list[str]]:
    # Only line feeds end lines here: str.splitlines also does at U+2028 and others.
    lines = [line.strip() for line in text.split("\n")]
    document: list[str] = []
    paragraph: list[str] = []
    empty = 0  # Lines in a row.
    for line in lines + [""] * 2:
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
