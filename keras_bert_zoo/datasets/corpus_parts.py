"""The files of a tokenized corpus on disk, and how they are written part by part."""

import dataclasses
import hashlib
import itertools
import json
import os
import pathlib
import re
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from keras_bert_zoo.datasets.corpus import tokenized, without_empty
from keras_bert_zoo.folders import alone

_INDEX = "corpus.json"
SIZES = np.dtype("<i4")
CHUNKS = np.dtype("<i8")
# What a killed process left; not of chunks, which another may be writing.
_LEFTOVER = re.compile(r"\.(corpus\.json|\d{5}\.(tokens|sentences|documents))\.\d+")
_OURS = re.compile(r"corpus\.json|\d{5}\.(tokens|sentences|documents|chunks-\d+-\d+)")


def write_corpus(
    folder: pathlib.Path, told: Mapping, documents: Iterable[Sequence[str]], tokenizer
) -> None:
    """Writes what is missing of a corpus; arguments and errors as for `CorpusFolder.write`.

    Args:
        folder: the folder, which exists.
        told: what tells this corpus from others, and goes into its index.
        documents: gone through only if there is something to do.
        tokenizer: the tokenizer.
    """
    with alone(folder, wait=True):
        _remove(folder, _LEFTOVER)
        index = read_index(folder)
        if index is None or any(index[name] != value for name, value in told.items()):
            _remove(folder, _OURS)
            index = {**told, "parts": [], "complete": False}
        if not index["complete"]:
            _write_parts(folder, index, documents, tokenizer)


@dataclasses.dataclass
class _Part:
    """Some documents in a row: what is in the files of a part, and what is told of it."""

    tokens: np.ndarray
    sentences: np.ndarray
    documents: np.ndarray
    read: int
    dropped_sentences: int
    dropped_documents: int

    @classmethod
    def of(cls, tokens, sentence_sizes, document_sizes):
        sentences, documents = without_empty(sentence_sizes, document_sizes)
        return cls(
            tokens,
            sentences,
            documents,
            len(document_sizes),
            len(sentence_sizes) - len(sentences),
            len(document_sizes) - len(documents),
        )

    @classmethod
    def joined(cls, parts):
        arrays = ("tokens", "sentences", "documents")
        numbers = ("read", "dropped_sentences", "dropped_documents")
        return cls(
            *(np.concatenate([getattr(part, name) for part in parts]) for name in arrays),
            *(sum(getattr(part, name) for part in parts) for name in numbers),
        )


def _gathered(batches, part_tokens):
    """Joins batches to parts, one behind, as a rest too small for itself joins the part before."""
    held, begun = [], []
    for batch in batches:
        begun.append(_Part.of(*batch))
        if _suffice(begun, part_tokens):
            if held:
                yield _Part.joined(held)
            held, begun = begun, []
    if begun and held and not _suffice(begun, 1):
        held, begun = held + begun, []
    for rest in (held, begun):
        if rest:
            yield _Part.joined(rest)


def _suffice(parts, tokens):
    """Whether there are so many tokens, and documents that give pairs of segments."""
    return (
        sum(len(part.tokens) for part in parts) >= tokens
        and sum(len(part.documents) for part in parts) >= 2
        and any((part.documents > 1).any() for part in parts)
    )


def _write_parts(folder, index, documents, tokenizer):
    """Writes what is missing, and the index after each part."""
    token_type = np.dtype(index["type"])
    # Those of the parts that are there.
    documents = itertools.islice(documents, sum(part["read"] for part in index["parts"]), None)
    for part in _gathered(tokenized(documents, tokenizer), index["part_tokens"]):
        if not len(part.tokens):  # Never with others: what has none joins what has.
            raise ValueError(f"The corpus is empty: its {part.read} documents have no token.")
        number = len(index["parts"])
        entry = {
            "read": part.read,
            "dropped_sentences": part.dropped_sentences,
            "dropped_documents": part.dropped_documents,
        }
        digest = hashlib.sha256()
        for kind, dtype in (("tokens", token_type), ("sentences", SIZES), ("documents", SIZES)):
            array = getattr(part, kind).astype(dtype)
            entry[kind] = len(array)
            digest.update(array.tobytes())
            write_file(folder / f"{number:05d}.{kind}", array.tobytes())
        index["parts"].append(entry | {"sha256": digest.hexdigest()})
        write_file(folder / _INDEX, json.dumps(index, indent=1).encode())
    if not index["parts"]:
        raise ValueError("The corpus is empty: there is no document.")
    index["complete"] = True
    write_file(folder / _INDEX, json.dumps(index, indent=1).encode())


def write_file(path: pathlib.Path, content: bytes) -> None:
    """Writes a file whole or not at all; several processes may write the same."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    with open(partial, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def _remove(folder, names):
    for path in folder.iterdir():
        if names.fullmatch(path.name):
            path.unlink()


def read_index(folder: pathlib.Path) -> dict | None:
    """What a folder's index says; `None` if it has none.

    Raises:
        ValueError: if it is none.
    """
    path = folder / _INDEX
    if not path.exists():
        return None
    try:
        index = json.loads(path.read_text(encoding="utf-8"))
        for name in ("tokenizer", "made_of", "part_tokens", "type", "parts", "complete"):
            index[name]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{path} is not the index of a tokenized corpus ({error!r}): remove {folder} to have "
            "it made anew."
        ) from None
    return index


def tokenizer_checksum(tokenizer) -> str:
    """SHA-256 of what decides a tokenizer's ids: settings, vocabulary, and version of Unicode."""
    config = {k: v for k, v in tokenizer.get_config().items() if k not in ("name", "dtype")}
    told = json.dumps(
        [config, list(tokenizer.vocabulary), tokenizer.unicode_version],
        sort_keys=True,
        default=str,
    )
    return hashlib.sha256(told.encode()).hexdigest()
