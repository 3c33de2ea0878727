"""A tokenized corpus on disk, in parts that are read one after another."""

import hashlib
import json
import os
import pathlib
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import tensorflow as tf

from keras_bert_zoo.datasets.corpus import splits
from keras_bert_zoo.datasets.corpus_parts import (
    CHUNKS,
    SIZES,
    read_index,
    tokenizer_checksum,
    write_corpus,
    write_file,
)
from keras_bert_zoo.datasets.segments import check_pairs, chunk_documents, corpus_tensors


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
        index = read_index(self.folder)
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
                ("sentences", SIZES),
                ("documents", SIZES),
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
        write_corpus(folder, told, documents, tokenizer)
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
                write_file(path, np.stack(chunks).astype(CHUNKS).tobytes())
            counts.append(path.stat().st_size // (3 * CHUNKS.itemsize))

        def load(part):
            begin = tf.strings.join(
                [f"{self.folder}/", tf.strings.as_string(part, width=5, fill="0")]
            )

            def read(kind, dtype):
                content = tf.io.read_file(tf.strings.join([begin, f".{kind}"]))
                return tf.io.decode_raw(content, tf.as_dtype(dtype.newbyteorder("=")))

            def read_splits(kind):
                sizes = tf.cast(read(kind, SIZES), tf.int64)
                return tf.concat([[0], tf.cumsum(sizes)], 0)

            return corpus_tensors(
                tf.cast(read("tokens", self._type), tf.int32),
                read_splits("sentences"),
                read_splits("documents"),
                tf.reshape(read(kind, CHUNKS), [3, -1]),
            )

        return counts, load

    def _path(self, number, kind):
        return self.folder / f"{number:05d}.{kind}"

    def _array(self, number, kind, dtype):
        return np.fromfile(self._path(number, kind), dtype)

    def _splits(self, number, kind):
        return splits(self._array(number, kind, SIZES))

    def __repr__(self) -> str:
        return (
            f"CorpusFolder({os.fspath(self.folder)!r}: {self.document_count:,} documents, "
            f"{self.token_count:,} tokens in {len(self.parts)} parts; empty: "
            f"{self.dropped_documents:,} documents, {self.dropped_sentences:,} sentences)"
        )
