"""A tokenized corpus on disk, in parts that are read one after another."""

import dataclasses
import hashlib
import itertools
import json
import os
import pathlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import tensorflow as tf

from keras_bert_zoo.datasets.corpus import splits, tokenized, without_empty
from keras_bert_zoo.datasets.segments import check_pairs, chunk_documents, corpus_tensors
from keras_bert_zoo.folders import alone

_INDEX = "corpus.json"
_SIZES = np.dtype("<i4")
_CHUNKS = np.dtype("<i8")
# What a killed process left; not of chunks, which another may be writing.
_LEFTOVER = re.compile(r"\.(corpus\.json|\d{5}\.(tokens|sentences|documents))\.\d+")
_OURS = re.compile(r"corpus\.json|\d{5}\.(tokens|sentences|documents|chunks-\d+-\d+)")


class CorpusFolder:
    """A tokenized corpus in a folder, of any size: a part of it is in memory at a time.

    `write` makes one. What `pretraining_dataset` draws at random for a row, such as its second
    segment, comes from the same part.

    In the folder are `corpus.json` and, of each part, flat little-endian arrays: the `tokens`,
    uint16 where they fit and else int32, how many tokens each sentence and how many sentences each
    document has, int32, and for each length of rows so far the chunks, int64.

    Attributes:
        tokenizer: the tokenizer that it was made with.
        parts: of each part, how many `tokens`, `sentences` and `documents` it has.
        checksum: of all the tokens and sizes, SHA-256.
        dropped_sentences, dropped_documents: how many were empty.

    Args:
        folder: the folder.
        tokenizer: a tokenizer with the vocabulary and the settings of the one that it was made
            with.

    Raises:
        ValueError: if there is no corpus, it is not finished or damaged, or of another tokenizer.
    """

    def __init__(self, folder: str | os.PathLike, tokenizer):
        self.folder = pathlib.Path(folder).resolve()
        index = _read_index(self.folder)
        if index is None or not index["complete"]:
            raise ValueError(
                f"There is no finished corpus in {self.folder}: `CorpusFolder.write` makes one."
            )
        if index["tokenizer"] != tokenizer_checksum(tokenizer):
            raise ValueError(
                f"The corpus in {self.folder} was made with another vocabulary or other settings "
                "of the tokenizer: write it anew."
            )
        self.tokenizer = tokenizer
        self.parts = index["parts"]
        self.dropped_sentences = sum(part["dropped_sentences"] for part in self.parts)
        self.dropped_documents = sum(part["dropped_documents"] for part in self.parts)
        whole = hashlib.sha256("".join(part["sha256"] for part in self.parts).encode())
        self.checksum = whole.hexdigest()
        self._type = np.dtype(index["type"])
        for number, part in enumerate(self.parts):
            for kind, dtype in (
                ("tokens", self._type),
                ("sentences", _SIZES),
                ("documents", _SIZES),
            ):
                path = self._path(number, kind)
                size = path.stat().st_size if path.exists() else None
                if size != part[kind] * dtype.itemsize:
                    raise ValueError(
                        f"{path} is damaged: it should have {part[kind] * dtype.itemsize} bytes, "
                        f"and has {size}. Remove {self.folder} to have it made anew."
                    )

    @classmethod
    def write(
        cls,
        folder: str | os.PathLike,
        documents: Iterable[Sequence[str]],
        tokenizer,
        made_of: Mapping | None = None,
        part_tokens: int = 2**24,
    ) -> "CorpusFolder":
        """Tokenizes documents into a folder, unless this was done before.

        If it was begun before, it goes on after the last part that was finished. If the folder has
        a corpus of something else, that is removed. Several processes may ask for the same folder
        at once: one writes, the others wait for it.

        Args:
            folder: the folder, made if need be.
            documents: each the sentences of one, e.g. from `iterate_documents`; the same in the
                same order if it goes on. They are gone through only if there is something to do.
            tokenizer: a `WordPieceTokenizer` with a vocabulary.
            made_of: what tells these documents from others, as JSON holds it, such as
                `describe_files` gives.
            part_tokens: tokens of a part, which ends with a document and may be somewhat longer.

        Raises:
            ValueError: if no token comes out of it, a document is a text instead of sentences, or
                the folder is a file.
        """
        if part_tokens < 1:
            raise ValueError(f"part_tokens must be at least 1, received {part_tokens}.")
        folder = pathlib.Path(folder).resolve()
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError) as error:
            raise ValueError(
                f"The corpus cannot be written to {folder}: {error.filename} is or lies in a file."
            ) from error
        told = {
            "tokenizer": tokenizer_checksum(tokenizer),
            "made_of": json.loads(json.dumps(made_of or {})),
            "part_tokens": part_tokens,
            "type": "<u2" if tokenizer.vocabulary_size <= 2**16 else "<i4",
        }
        with alone(folder, wait=True):
            _remove(folder, _LEFTOVER)
            index = _read_index(folder)
            if index is None or any(index[name] != value for name, value in told.items()):
                _remove(folder, _OURS)
                index = told | {"parts": [], "complete": False}
            if not index["complete"]:
                _write_parts(folder, index, documents, tokenizer)
        return cls(folder, tokenizer)

    @property
    def token_count(self) -> int:
        return sum(part["tokens"] for part in self.parts)

    @property
    def document_count(self) -> int:
        return sum(part["documents"] for part in self.parts)

    @property
    def unigram_counts(self) -> np.ndarray:
        """int64 (V,): how often each token is in the corpus, all of which is read for it."""
        size = self.tokenizer.vocabulary_size
        counts = np.zeros(size, np.int64)
        for number in range(len(self.parts)):
            counts += np.bincount(self._array(number, "tokens", self._type), minlength=size)
        return counts

    def cut(self, target: int, least: int, pairs: bool) -> tuple[list[int], Callable]:
        """Cuts the documents into chunks; arguments and result as for `PretrainingCorpus.cut`."""
        kind = f"chunks-{target}-{least}"
        counts = []
        for number in range(len(self.parts)):
            documents = self._splits(number, "documents")
            if pairs:
                check_pairs(documents, f"Part {number} of the corpus in {self.folder}")
            path = self._path(number, kind)
            if not path.exists():
                sentences = self._splits(number, "sentences")
                chunks = chunk_documents(sentences, documents, target, least)
                _write(path, np.stack(chunks).astype(_CHUNKS).tobytes())
            counts.append(path.stat().st_size // (3 * _CHUNKS.itemsize))

        def load(part):
            begin = tf.strings.join(
                [f"{self.folder}/", tf.strings.as_string(part, width=5, fill="0")]
            )

            def read(kind, dtype):
                content = tf.io.read_file(tf.strings.join([begin, f".{kind}"]))
                return tf.io.decode_raw(content, tf.as_dtype(dtype.newbyteorder("=")))

            def read_splits(kind):
                sizes = tf.cast(read(kind, _SIZES), tf.int64)
                return tf.concat([[0], tf.cumsum(sizes)], 0)

            return corpus_tensors(
                tf.cast(read("tokens", self._type), tf.int32),
                read_splits("sentences"),
                read_splits("documents"),
                tf.reshape(read(kind, _CHUNKS), [3, -1]),
            )

        return counts, load

    def _path(self, number, kind):
        return self.folder / f"{number:05d}.{kind}"

    def _array(self, number, kind, dtype):
        return np.fromfile(self._path(number, kind), dtype)

    def _splits(self, number, kind):
        return splits(self._array(number, kind, _SIZES))

    def __repr__(self) -> str:
        return (
            f"CorpusFolder({os.fspath(self.folder)!r}: {self.document_count:,} documents, "
            f"{self.token_count:,} tokens in {len(self.parts)} parts; empty: "
            f"{self.dropped_documents:,} documents, {self.dropped_sentences:,} sentences)"
        )


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
        for kind, dtype in (("tokens", token_type), ("sentences", _SIZES), ("documents", _SIZES)):
            array = getattr(part, kind).astype(dtype)
            entry[kind] = len(array)
            digest.update(array.tobytes())
            _write(folder / f"{number:05d}.{kind}", array.tobytes())
        index["parts"].append(entry | {"sha256": digest.hexdigest()})
        _write(folder / _INDEX, json.dumps(index, indent=1).encode())
    if not index["parts"]:
        raise ValueError("The corpus is empty: there is no document.")
    index["complete"] = True
    _write(folder / _INDEX, json.dumps(index, indent=1).encode())


def _write(path, content):
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


def _read_index(folder):
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
    """SHA-256 of what decides a tokenizer's ids: settings and vocabulary."""
    config = {k: v for k, v in tokenizer.get_config().items() if k not in ("name", "dtype")}
    told = json.dumps([config, list(tokenizer.vocabulary)], sort_keys=True, default=str)
    return hashlib.sha256(told.encode()).hexdigest()
