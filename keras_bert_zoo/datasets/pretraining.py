"""Documents to batches for pretraining: packed pairs of segments, masked anew in every epoch."""

import numpy as np
import tensorflow as tf

from keras_bert_zoo.datasets.corpus import PretrainingCorpus
from keras_bert_zoo.datasets.corpus_folder import CorpusFolder
from keras_bert_zoo.datasets.segments import SegmentSampler
from keras_bert_zoo.tasks.inputs import steady
from keras_bert_zoo.text.keyed_random import keyed_permutation, pass_key
from keras_bert_zoo.text.masking import DynamicMasker, next_tokens

_ORDER_STREAM, _PART_STREAM = 32, 33
_TARGETS = ("masked_ids", "masked_weights", "next_sentence", "next_sentence_weights")


def pretraining_dataset(
    corpus: PretrainingCorpus | CorpusFolder,
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
    left_to_right: bool = False,
    workers: int = 1,
    worker: int = 0,
) -> tf.data.Dataset:
    """Batches of masked rows with labels, as `Pretraining` reads them.

    Example e of epoch k is the same rows, labels and masks for the same seed, whatever the batch
    size and wherever the stream started. One epoch is every chunk of the corpus once
    (`segments.chunk_documents`). Of a `CorpusFolder` one part is read after another, in an order
    that changes with the epoch, as does that of the chunks in each. The dataset contains all its
    epochs, each drawn anew. Gone through again, as `fit` does for each of its own epochs, it draws
    anew once more, but for `shuffle=False`, which always gives the same batches: evaluate with
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
        left_to_right: whether every token is to be predicted from those before it, by a causal
            encoder (section 5.1 of the paper, "LTR"). None is masked then, and P is L - 1.
        workers, worker: into how many parts each batch is cut, and which of them, from 0, is
            given: that of a worker, which so makes no rows of others.

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
    if not 0 <= worker < workers:
        raise ValueError(f"worker must be from 0 to workers - 1, received {worker} of {workers}.")
    tokenizer = corpus.tokenizer
    sampler = SegmentSampler(
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
    counts, load = corpus.cut(sampler.target, sampler.least, next_sentence)
    parts, count = len(counts), sum(counts)
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
    low = worker * batch_size // workers
    own = (worker + 1) * batch_size // workers - low
    if workers > 1 and (not is_full or batch_size < workers):
        raise ValueError(
            f"Each of {workers} workers needs a row of every batch: pass epochs=None or "
            f"drop_remainder=True, and a batch of {workers} rows or more. Received: "
            f"batch_size={batch_size}, epochs={epochs}."
        )
    start_row = start_step * batch_size
    with tf.init_scope():
        counts = tf.constant(counts, tf.int64)

    def choose_part(again, number):
        """Which part of the corpus comes at a place, and where its rows lie in the stream."""
        epoch, place = number // parts, number % parts
        order = tf.range(parts, dtype=tf.int64)
        if shuffle:
            order = keyed_permutation(seed, again + epoch, order, _PART_STREAM, parts)
        sizes = tf.gather(counts, order)
        begin = epoch * count + tf.cumsum(sizes, exclusive=True)[place]
        return again, epoch, order[place], begin, begin + sizes[place]

    def read_part(again, epoch, part, begin, end):
        return again, epoch, part, begin, end, load(part)

    def own_before(place):
        """How many of the rows before a place in the stream are ours."""
        return place // batch_size * own + tf.clip_by_value(place % batch_size - low, 0, own)

    def make_blocks(again, epoch, part, begin, end, tensors):
        """Our rows of a part, as many at once as a batch has."""
        start, stop = own_before(tf.maximum(begin, start_row)), own_before(end)

        def make_block(number):
            first = start + number * own
            row = tf.range(first, tf.minimum(first + own, stop), dtype=tf.int64)
            row = row // own * batch_size + low + row % own
            return make_rows(tensors, again, epoch, part, row - begin, end - begin)

        blocks = tf.data.Dataset.range((stop - start + own - 1) // own)
        return blocks.map(make_block, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)

    def make_rows(tensors, again, epoch, part, row, size):
        # Of its own for each part, and the epoch's where there is one part.
        key = (again + epoch) * parts + part
        example = row
        if shuffle:
            example = keyed_permutation(seed, key, row, _ORDER_STREAM, size)
        if static_masks:
            key = (epoch % static_masks) * parts + part
        rows = sampler(tensors, key, example)
        if left_to_right:
            inputs = rows | next_tokens(rows["token_ids"], rows["padding_mask"])
        else:
            inputs = rows | masker(rows["token_ids"], rows["padding_mask"], key, example)
        targets = {name: inputs.pop(name) for name in _TARGETS if name in inputs}
        return inputs, targets

    do_not_convert = tf.autograph.experimental.do_not_convert  # No Python flow on tensors.
    again = pass_key(seed) if shuffle else tf.data.Dataset.from_tensors(np.int64(0)).repeat()
    first, last = start_row // count, total // count + 1 if epochs is None else epochs
    numbers = tf.data.Dataset.range(first * parts, min(last * parts, 2**62))
    dataset = tf.data.Dataset.zip(again, numbers).map(do_not_convert(choose_part))
    # What is skipped is not read.
    dataset = dataset.filter(lambda again, epoch, part, begin, end: end > start_row)
    dataset = dataset.map(do_not_convert(read_part))
    if parts > 1:
        dataset = dataset.prefetch(1)
    dataset = dataset.flat_map(do_not_convert(make_blocks))
    dataset = dataset.rebatch(own, drop_remainder=is_full)
    left = tf.data.INFINITE_CARDINALITY if epochs is None else steps - start_step
    dataset = dataset.apply(tf.data.experimental.assert_cardinality(left))
    return steady(dataset.prefetch(tf.data.AUTOTUNE))
