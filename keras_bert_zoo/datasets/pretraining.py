"""Documents to batches for pretraining: packed pairs of segments, masked anew in every epoch."""

from collections.abc import Iterable, Sequence

import keras
import numpy as np
import tensorflow as tf

from keras_bert_zoo.datasets.segments import SegmentSampler
from keras_bert_zoo.tasks.inputs import steady
from keras_bert_zoo.text.keyed_random import keyed_permutation, pass_key
from keras_bert_zoo.text.masking import DynamicMasker

_ORDER_STREAM = 32
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
            documents: each the sentences of one, e.g. from `read_documents`; a string is a
                document of one sentence.
            tokenizer: a `WordPieceTokenizer` with a vocabulary.
            verbose: whether to show a progress bar.

        Raises:
            ValueError: if no token comes out of it, or a document is a text instead of sentences.
        """
        documents = list(documents)
        for document in documents:
            if isinstance(document, (str, bytes)):
                raise ValueError(
                    "A document is a sequence of sentences, received one text: "
                    f"{document!r:.100}. Split it, e.g. with split_sentences."
                )
        sentences = [sentence for document in documents for sentence in document]
        bar = keras.utils.Progbar(
            len(sentences), verbose=int(verbose), unit_name="sentence", interval=0.5
        )
        tokens, sizes = [np.zeros(0, np.int32)], [np.zeros(0, np.int64)]
        for start in range(0, len(sentences), _TOKENIZED_AT_ONCE):
            ids = tokenizer(tf.constant(sentences[start : start + _TOKENIZED_AT_ONCE]))
            tokens.append(ids.flat_values.numpy())
            sizes.append(ids.row_lengths().numpy())
            bar.update(min(start + _TOKENIZED_AT_ONCE, len(sentences)))
        corpus = cls.__new__(cls)
        counts = np.array([len(document) for document in documents], np.int64)
        corpus._set(np.concatenate(tokens), np.concatenate(sizes), counts, tokenizer)
        return corpus

    def _set(self, tokens, sentence_sizes, document_sizes, tokenizer):
        document = np.repeat(np.arange(len(document_sizes)), document_sizes)
        is_kept = sentence_sizes > 0
        document_sizes = np.bincount(document[is_kept], minlength=len(document_sizes))
        self.dropped_sentences = int(np.count_nonzero(~is_kept))
        self.dropped_documents = int(np.count_nonzero(document_sizes == 0))
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
        self.sentence_splits = _splits(sentence_sizes[is_kept])
        self.document_splits = _splits(document_sizes[document_sizes > 0])
        self.tokenizer = tokenizer

    @property
    def unigram_counts(self) -> np.ndarray:
        """int64 (V,): how often each token is in the corpus."""
        return np.bincount(self.tokens, minlength=self.tokenizer.vocabulary_size)

    def __repr__(self) -> str:
        return (
            f"PretrainingCorpus({len(self.document_splits) - 1:,} documents, "
            f"{len(self.sentence_splits) - 1:,} sentences, {len(self.tokens):,} tokens; empty: "
            f"{self.dropped_documents:,} documents, {self.dropped_sentences:,} sentences)"
        )


def pretraining_dataset(
    corpus: PretrainingCorpus,
    sequence_length: int,
    batch_size: int,
    *,
    seed: int = 0,
    epochs: int | None = None,
    shuffle: bool = True,
    start_step: int = 0,
    drop_remainder: bool = False,
    next_sentence: bool = True,
    short_sequence_rate: float = 0.1,
    max_predictions: int | None = None,
    masking_rate: float = 0.15,
    mask_share: float = 0.8,
    random_share: float = 0.1,
    masking_unit: str = "token",
    max_ngram: int = 3,
    data_noising: bool = False,
    static_masks: int | None = None,
) -> tf.data.Dataset:
    """Batches of masked rows with labels, as `Pretraining` reads them.

    Example e of epoch k is the same rows, labels and masks for the same seed, whatever the batch
    size and wherever the stream started. One epoch is every chunk of the corpus once
    (`segments.chunk_documents`). The dataset contains all its epochs, each drawn anew. Gone
    through again, as `fit` does for each of its own epochs, it draws anew once more, but for
    `shuffle=False`, which always gives the same batches: evaluate with
    `epochs=1, shuffle=False`. Do not `cache()` it for training: that freezes the masks.

    Args:
        corpus: the tokenized documents.
        sequence_length: L.
        batch_size: B. Batches reach across epochs, so that all but the very last are full.
        seed: any integer; decides order, pairs and masks.
        epochs: how many epochs there are; None for a stream without end.
        shuffle: whether each epoch has an order of its own; otherwise that of the corpus, and
            every pass through the dataset is the same.
        start_step: the number of batches to leave out at the beginning, without cost.
        drop_remainder: whether to leave out a last batch that is not full.
        next_sentence: whether rows are pairs with a label; otherwise single texts.
        short_sequence_rate: share of the rows that aim at a random smaller length.
        max_predictions: P; by default 20 at L=128, 76 at L=512, as the paper has them, and the
            masking rate's share of L otherwise, rounded up.
        masking_rate, mask_share, random_share, max_ngram: as for `DynamicMasker`.
        masking_unit: "token", "whole_word" or "ngram".
        data_noising: whether random replacements follow the corpus' token counts.
        static_masks: epochs after which pairs and masks come again, e.g. 10 for the static masking
            of the original, for comparison; None for ever new ones.

    Returns:
        A dataset of (inputs, targets), two dicts:
            inputs: token_ids, segment_ids, padding_mask, int32 (B, L); masked_positions, int32
                (B, P).
            targets: masked_ids, int32 (B, P); masked_weights, float32 (B, P); and, if
                `next_sentence`, next_sentence, int32 (B,), 0 if the second text follows the first
                and 1 if it does not, and next_sentence_weights, float32 (B,), 0 for rows of one
                text.

    Raises:
        ValueError: if an argument is out of range, the corpus allows no pairs, or there is no
            batch to give.
    """
    for name, value in (
        ("batch_size", batch_size), ("epochs", epochs), ("static_masks", static_masks)
    ):  # fmt: skip
        if value is not None and value < 1:
            raise ValueError(f"{name} must be at least 1, received {value}.")
    if start_step < 0:
        raise ValueError(f"start_step must not be negative, received {start_step}.")
    tokenizer = corpus.tokenizer
    sampler = SegmentSampler(
        corpus.tokens,
        corpus.sentence_splits,
        corpus.document_splits,
        sequence_length,
        cls_id=tokenizer.cls_id,
        sep_id=tokenizer.sep_id,
        pad_id=tokenizer.pad_id,
        next_sentence=next_sentence,
        short_sequence_rate=short_sequence_rate,
        seed=seed,
    )
    masker = DynamicMasker.for_tokenizer(
        tokenizer,
        sequence_length,
        max_predictions=max_predictions,
        masking_rate=masking_rate,
        mask_share=mask_share,
        random_share=random_share,
        unit=masking_unit,
        max_ngram=max_ngram,
        unigram_counts=corpus.unigram_counts if data_noising else None,
        seed=seed,
    )
    count = sampler.example_count
    # Without an end, one that no run reaches, and with which no sum overflows.
    total = 2**62 if epochs is None else count * epochs
    steps = total // batch_size if drop_remainder else -(-total // batch_size)
    if start_step >= steps:
        raise ValueError(
            f"There is no batch to give from start_step {start_step} on: the corpus makes {count} "
            f"rows of {sequence_length} tokens, in {epochs} epochs {steps} batches of {batch_size} "
            f"with drop_remainder={drop_remainder}."
        )
    is_full = epochs is None or drop_remainder or total % batch_size == 0

    @tf.autograph.experimental.do_not_convert  # No Python flow depends on tensors.
    def make_batch(again, step):
        start = step * batch_size
        end = tf.minimum(start + batch_size, total)
        place = tf.range(start, end, dtype=tf.int64)
        if is_full:
            place = tf.ensure_shape(place, [batch_size])
        epoch, example = again + place // count, place % count
        if shuffle:
            example = keyed_permutation(seed, epoch, example, _ORDER_STREAM, count)
        if static_masks:
            epoch = (place // count) % static_masks
        rows = sampler(epoch, example)
        masked = masker(rows["token_ids"], rows["padding_mask"], epoch, example)
        inputs = {**rows, **masked}
        targets = {
            name: inputs.pop(name)
            for name in (
                "masked_ids", "masked_weights", "next_sentence", "next_sentence_weights"
            )
            if name in inputs
        }  # fmt: skip
        return inputs, targets

    passes = pass_key(seed) if shuffle else tf.data.Dataset.from_tensors(np.int64(0)).repeat()
    dataset = tf.data.Dataset.zip(passes, tf.data.Dataset.range(start_step, steps))
    dataset = dataset.map(make_batch, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    if epochs is None:
        endless = tf.data.experimental.assert_cardinality(tf.data.INFINITE_CARDINALITY)
        dataset = dataset.apply(endless)
    return steady(dataset.prefetch(tf.data.AUTOTUNE))


def _splits(sizes: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
