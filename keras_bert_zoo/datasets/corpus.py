"""A tokenized corpus in memory: documents of sentences of ids."""

from collections.abc import Callable, Iterable, Iterator, Sequence

import keras
import numpy as np
import tensorflow as tf

from keras_bert_zoo.datasets.segments import check_pairs, chunk_documents, corpus_tensors

_TOKENIZED_AT_ONCE = 8192  # Sentences.


class PretrainingCorpus:
    """A tokenized corpus in three flat arrays.

    Sentences without a token, and documents without a sentence, are left out and counted.

    Attributes:
        tokens: int32 (T,).
        sentence_splits: int64 (S + 1,), where sentences begin and the last one ends, in tokens.
        document_splits: int64 (D + 1,), where documents begin and the last one ends, in sentences.
        tokenizer: knows the ids of the special tokens and which tokens continue a word.
        dropped_sentences, dropped_documents: how many were empty.

    Args:
        token_ids: documents, each a sequence of sentences, each a sequence of ids. For text, see
            `from_documents`.
        tokenizer: a `WordPieceTokenizer` with a vocabulary.

    Raises:
        ValueError: if there is no token at all, or an id outside of the vocabulary.
    """

    def __init__(self, token_ids: Iterable[Sequence[Sequence[int]]], tokenizer):
        documents = [list(document) for document in token_ids]
        sentences = [sentence for document in documents for sentence in document]
        sizes = np.array([len(sentence) for sentence in sentences], np.int64)
        tokens = np.fromiter((t for sentence in sentences for t in sentence), np.int32, sizes.sum())
        self._set(tokens, sizes, np.array([len(d) for d in documents], np.int64), tokenizer)

    @classmethod
    def from_documents(
        cls, documents: Iterable[Sequence[str]], tokenizer, verbose: bool = True
    ) -> "PretrainingCorpus":
        """Tokenizes documents.

        Args:
            documents: each the sentences of one, e.g. from `read_documents`.
            tokenizer: a `WordPieceTokenizer` with a vocabulary.
            verbose: whether to show a progress bar.

        Raises:
            ValueError: if no token comes out of it, or a document is a text instead of sentences.
        """
        documents = list(documents)
        bar = keras.utils.Progbar(
            sum(map(len, documents)), verbose=int(verbose), unit_name="sentence", interval=0.5
        )
        batches = [[np.zeros(0, np.int32)], [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]]
        for batch in tokenized(documents, tokenizer):
            for arrays, array in zip(batches, batch, strict=True):
                arrays.append(array)
            bar.add(len(batch[1]))
        corpus = cls.__new__(cls)
        corpus._set(*map(np.concatenate, batches), tokenizer)
        return corpus

    def _set(self, tokens, sentence_sizes, document_sizes, tokenizer):
        kept_sentences, kept_documents = without_empty(sentence_sizes, document_sizes)
        self.dropped_sentences = len(sentence_sizes) - len(kept_sentences)
        self.dropped_documents = len(document_sizes) - len(kept_documents)
        if not len(tokens):
            raise ValueError(
                f"The corpus is empty: its {len(document_sizes)} documents with "
                f"{len(sentence_sizes)} sentences have no token."
            )
        if tokens.min() < 0 or tokens.max() >= tokenizer.vocabulary_size:
            raise ValueError(
                f"Token ids must be from 0 to {tokenizer.vocabulary_size - 1}, the tokenizer's, "
                f"received ids from {tokens.min()} to {tokens.max()}."
            )
        self.tokens = tokens
        self.sentence_splits = splits(kept_sentences)
        self.document_splits = splits(kept_documents)
        self.tokenizer = tokenizer

    @property
    def unigram_counts(self) -> np.ndarray:
        """int64 (V,): how often each token is in the corpus."""
        return np.bincount(self.tokens, minlength=self.tokenizer.vocabulary_size)

    @property
    def token_count(self) -> int:
        return len(self.tokens)

    @property
    def document_count(self) -> int:
        return len(self.document_splits) - 1

    def cut(self, target: int, least: int, pairs: bool) -> tuple[list[int], Callable]:
        """Cuts the documents into chunks, as `chunk_documents` does.

        Args:
            target, least: as for `chunk_documents`.
            pairs: whether the chunks are to give pairs of segments.

        Returns:
            How many chunks each part of the corpus has, of which there is one here; and a function
            from the number of a part, an int64 scalar, to what `corpus_tensors` gives of it.

        Raises:
            ValueError: if there is no pair to make.
        """
        if pairs:
            check_pairs(self.document_splits)
        chunks = chunk_documents(self.sentence_splits, self.document_splits, target, least)
        with tf.init_scope():
            tensors = corpus_tensors(
                self.tokens, self.sentence_splits, self.document_splits, np.stack(chunks)
            )
        return [len(chunks[0])], lambda part: tensors

    def __repr__(self) -> str:
        return (
            f"PretrainingCorpus({self.document_count:,} documents, "
            f"{len(self.sentence_splits) - 1:,} sentences, {len(self.tokens):,} tokens; empty: "
            f"{self.dropped_documents:,} documents, {self.dropped_sentences:,} sentences)"
        )


def tokenized(
    documents: Iterable[Sequence[str]], tokenizer
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Tokenizes documents, some thousand sentences at once.

    Yields:
        Of some documents: their tokens, int32; how many each sentence has, int64; and how many
        sentences each document has, int64.

    Raises:
        ValueError: if a document is a text instead of sentences.
    """
    batch, count = [], 0
    for document in documents:
        if isinstance(document, (str, bytes)):
            raise ValueError(
                "A document is a sequence of sentences, received one text: "
                f"{document!r:.100}. Split it, e.g. with split_sentences."
            )
        batch.append(document)
        count += len(document)
        if count >= _TOKENIZED_AT_ONCE:
            yield _tokenize(batch, tokenizer)
            batch, count = [], 0
    if batch:
        yield _tokenize(batch, tokenizer)


def _tokenize(documents, tokenizer):
    sentences = [sentence for document in documents for sentence in document]
    ids = tokenizer(tf.constant(sentences, tf.string))
    sizes = np.array([len(document) for document in documents], np.int64)
    return ids.flat_values.numpy(), ids.row_lengths().numpy(), sizes


def without_empty(sentence_sizes: np.ndarray, document_sizes: np.ndarray):
    """The sizes of the sentences that have a token, and of the documents that have such."""
    document = np.repeat(np.arange(len(document_sizes)), document_sizes)
    is_kept = sentence_sizes > 0
    document_sizes = np.bincount(document[is_kept], minlength=len(document_sizes))
    return sentence_sizes[is_kept], document_sizes[document_sizes > 0]


def splits(sizes: np.ndarray) -> np.ndarray:
    """Where things of such sizes begin, and the last one ends: int64, one longer."""
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
