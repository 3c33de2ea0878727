"""Draws the segments of pretraining rows from a tokenized corpus, for a whole batch at once.

Section A.2 of Devlin et al. 2019 (arXiv 1810.04805), with labels kept balanced and with second
segments whose length does not tell whether they are the true ones.
"""

import numpy as np
import tensorflow as tf

from keras_bert_zoo.text.keyed_random import keyed_integers, keyed_permutation, keyed_uniform

IS_NEXT, NOT_NEXT = 0, 1
_ROW_STREAM, _SHORT_STREAM, _LABEL_STREAM, _ODD_STREAM, _OTHER_STREAM = range(16, 21)
# A random second segment is the one of so many whose length is nearest to the true one's.
_CANDIDATES = 64


def chunk_documents(
    sentence_splits: np.ndarray, document_splits: np.ndarray, target: int, least: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Cuts documents into runs of whole sentences of at least `target` tokens.

    Args:
        sentence_splits: int64 (S + 1,), where sentences begin and the last one ends, in tokens.
        document_splits: int64 (D + 1,), where documents begin and the last one ends, in sentences.
        target: tokens from which on a run is long enough; the last one of a document may be
            shorter.
        least: fewest sentences in a run, as far as the document has them: a rest of fewer takes
            sentences of the run before it again.

    Returns:
        int64 (N,) each: first sentence, end sentence, and document of every chunk, in order.
    """
    document = np.repeat(np.arange(len(document_splits) - 1), np.diff(document_splits))
    start = np.arange(len(document))
    end = np.searchsorted(sentence_splits, sentence_splits[:-1] + target)
    end = np.minimum(np.maximum(end, start + least), document_splits[document + 1])
    next_start = end.tolist()
    starts, sentence = [], 0
    while sentence < len(next_start):
        starts.append(sentence)
        sentence = next_start[sentence]
    first = np.array(starts, np.int64)
    owner, last = document[first], end[first]
    first = np.maximum(np.minimum(first, last - least), document_splits[owner])
    return first, last, owner


def check_pairs(document_splits: np.ndarray, where: str = "The corpus") -> None:
    """Makes sure that documents give pairs of segments, true ones and random ones.

    Raises:
        ValueError: if there is one document only, or none has two sentences.
    """
    sizes = np.diff(document_splits)
    if len(sizes) < 2:
        raise ValueError(
            f"{where} is one document: there is no other to draw a random next sentence "
            "from. Give more documents, or pass next_sentence=False."
        )
    if sizes.max() < 2:
        raise ValueError(
            f"None of the {len(sizes)} documents has two sentences, so none has a true next "
            "sentence. Pass next_sentence=False."
        )


def corpus_tensors(tokens, sentence_splits, document_splits, chunks) -> dict[str, tf.Tensor]:
    """What a `SegmentSampler` reads of a corpus, or of a part of one.

    Args:
        tokens: int32 (T,).
        sentence_splits, document_splits: int64, as for `chunk_documents`.
        chunks: int64 (3, N), what `chunk_documents` gives.

    Returns:
        int64 tensors by name, and the tokens, int32.
    """
    first, last, owner = tf.unstack(tf.convert_to_tensor(chunks, tf.int64))
    document_splits = tf.convert_to_tensor(document_splits, tf.int64)
    sizes = document_splits[1:] - document_splits[:-1]
    is_pair = last - first > 1
    # Examples that may give a random B, and where those of each document lie among them.
    has_others = tf.math.count_nonzero(sizes > 1) >= 2
    others = tf.where(is_pair | ~has_others)[:, 0]
    return {
        "tokens": tf.convert_to_tensor(tokens, tf.int32),
        "sentence_splits": tf.convert_to_tensor(sentence_splits, tf.int64),
        "first": first,
        "last": last,
        "owner": owner,
        "pair_rank": tf.cumsum(tf.cast(is_pair, tf.int64)) - 1,
        "others": others,
        "other_splits": tf.searchsorted(
            tf.gather(owner, others), tf.range(tf.size(document_splits, tf.int64)),
            out_type=tf.int64,
        ),
    }  # fmt: skip


def _begin(corpus, sentence):
    """Where a sentence begins, in tokens, which is where the one before it ends."""
    return tf.gather(corpus["sentence_splits"], sentence)


def _find(corpus, token, side):
    """The first sentence that begins at or after ("left"), or after ("right"), a token."""
    found = tf.searchsorted(
        corpus["sentence_splits"], tf.reshape(token, [-1]), side, out_type=tf.int64
    )
    return tf.reshape(found, tf.shape(token))


def _split(first, last, draw):
    """A sentence after the first one at random; the first one if it is the only one."""
    return tf.minimum(first + 1 + draw % tf.maximum(last - first - 1, 1), last - 1)


class SegmentSampler:
    """Makes rows `[CLS] A [SEP] B [SEP]` or `[CLS] A [SEP]`, unmasked, from a corpus.

    An example is a chunk of consecutive sentences of one document (`chunk_documents`). It is split
    between two sentences at random into A and the rest. The rest is B in half of the examples
    (label 0). In the other half (label 1) B is the rest of an example of another document, drawn
    and split in the same way; of several such, the one with most nearly as many tokens. So neither
    B alone nor any length tells the label, which else both would: by where in a document B may
    begin and end, and by how well the row is filled. Which half an example is in changes with the
    epoch; exactly half are in each. A document of one sentence has no true next: it is a single
    text without a label, and a random B only if a single document has two sentences.

    What exceeds the row is cut from the longer segment, from its front and its end in a random
    proportion.

    The corpus comes with each call, as `corpus_tensors` makes it, so that one sampler serves all
    parts of a corpus.

    Args:
        sequence_length: L.
        cls_id, sep_id, pad_id: ids of the special tokens.
        next_sentence: whether to make pairs; if not, all rows are single texts.
        short_sequence_rate: share of the rows that aim at a random smaller length.
        seed: any integer.

    Attributes:
        target, least: as `chunk_documents` takes them.

    Raises:
        ValueError: if the sequence is too short for a pair, or a rate is none.
    """

    def __init__(
        self,
        sequence_length: int,
        *,
        cls_id: int,
        sep_id: int,
        pad_id: int,
        next_sentence: bool = True,
        short_sequence_rate: float = 0.1,
        seed: int = 0,
    ):
        least = 5 if next_sentence else 3
        if sequence_length < least:
            raise ValueError(
                f"sequence_length must be at least {least} for [CLS], [SEP] and a token a segment, "
                f"received {sequence_length}."
            )
        if not 0 <= short_sequence_rate <= 1:
            raise ValueError(
                f"short_sequence_rate must be in [0, 1], received {short_sequence_rate}."
            )
        self.target = sequence_length - (3 if next_sentence else 2)
        self.least = 2 if next_sentence else 1
        self._length = sequence_length
        self._ids = cls_id, sep_id, pad_id
        self._pairs = next_sentence
        self._short_rate = short_sequence_rate
        self._seed = seed

    def __call__(self, corpus, epoch, example) -> dict[str, tf.Tensor]:
        """Makes a batch.

        Args:
            corpus: as `corpus_tensors` gives it.
            epoch: int64 scalar or (B,); with the seed, it decides all that is random.
            example: int64 (B,), each from 0 to one less than there are chunks.

        Returns:
            token_ids, segment_ids, padding_mask: int32 (B, L).
            next_sentence: int32 (B,), 0 if B follows A, 1 if it does not.
            next_sentence_weights: float32 (B,), 0 for single texts, else 1.
            The last two only if `next_sentence`.
        """
        draws = tf.unstack(keyed_integers(self._seed, epoch, example, _ROW_STREAM, 5), axis=1)
        target = self._draw_target(epoch, example, draws[0])
        first, last = self._sentences(corpus, example, target, draws[1])
        begin, end = _begin(corpus, first), _begin(corpus, last)
        if not self._pairs:
            return self._pack(corpus, begin, end - begin, None, None, draws[3:])

        is_pair = last - first > 1
        split = _begin(corpus, _split(first, last, draws[2]))
        other, other_end = self._other_segment(
            corpus, epoch, example, target, split - begin, end - split
        )
        # A single text has the rank of the pair before it, which may be -1: any will do.
        rank = tf.maximum(tf.gather(corpus["pair_rank"], example), 0)
        count = corpus["pair_rank"][-1] + 1
        place = keyed_permutation(self._seed, epoch, rank, _LABEL_STREAM, count)
        # Of an odd number of pairs the one that is over changes sides.
        odd = keyed_integers(self._seed, epoch, tf.zeros_like(example), _ODD_STREAM, 1)[:, 0]
        is_random = is_pair & ((place + odd % 2) % 2 == 1)
        second = tf.where(is_random, other, split)
        second_size = tf.where(is_random, other_end, end) - second
        rows = self._pack(
            corpus,
            begin,
            tf.where(is_pair, split, end) - begin,
            second,
            tf.where(is_pair, second_size, 0),
            draws[3:],
        )
        return {
            **rows,
            "next_sentence": tf.where(is_random, NOT_NEXT, IS_NEXT),
            "next_sentence_weights": tf.cast(is_pair, tf.float32),
        }

    def _draw_target(self, epoch, example, draw):
        """int64 (B,): the length to aim at in a short row, 0 in others."""
        is_short = keyed_uniform(self._seed, epoch, example, _SHORT_STREAM, 1)[:, 0]
        target = self.least + draw % (self.target - self.least + 1)
        return tf.where(is_short < self._short_rate, target, 0)

    def _sentences(self, corpus, example, target, draw):
        """First and end sentence: those of the chunk, or of a part of it for a short row."""
        first, last = tf.gather(corpus["first"], example), tf.gather(corpus["last"], example)
        begin, end = _begin(corpus, first), _begin(corpus, last)
        begin += draw % tf.maximum(end - begin - target + 1, 1)
        start = tf.minimum(_find(corpus, begin, "right") - 1, last - self.least)
        start = tf.maximum(start, first)
        stop = _find(corpus, _begin(corpus, start) + target, "left")
        stop = tf.minimum(tf.maximum(stop, start + self.least), last)
        return tf.where(target > 0, start, first), tf.where(target > 0, stop, last)

    def _other_segment(self, corpus, epoch, example, target, first_size, size):
        """Begin and end, in tokens, of a segment of another document of about `size` tokens."""
        owner = tf.gather(corpus["owner"], example)[:, tf.newaxis]
        low = tf.gather(corpus["other_splits"], owner)
        own = tf.gather(corpus["other_splits"], owner + 1) - low
        draws = keyed_integers(self._seed, epoch, example, _OTHER_STREAM, 3 * _CANDIDATES)
        draws = tf.split(draws, 3, axis=1)
        place = draws[0] % (tf.size(corpus["others"], tf.int64) - own)
        place += tf.where(place >= low, own, 0)
        other = tf.gather(corpus["others"], place)
        first, last = self._sentences(corpus, other, target[:, tf.newaxis], draws[1])
        begin, end = _begin(corpus, _split(first, last, draws[2])), _begin(corpus, last)
        size, first_size = size[:, tf.newaxis], first_size[:, tf.newaxis]
        miss = tf.abs(end - begin - size)
        # A row that the true B fills must not be left with padding, nor the other way round.
        fills, would_fill = (first_size + n >= self.target for n in (end - begin, size))
        best = tf.argmin(tf.where(fills == would_fill, miss, miss + 2**40), axis=1)
        return tf.gather(begin, best, batch_dims=1), tf.gather(end, best, batch_dims=1)

    def _pack(self, corpus, first, first_size, second, second_size, draws):
        """Cuts the segments to fit, and sets them between the special tokens."""
        cls_id, sep_id, pad_id = self._ids
        if second is None:
            second, second_size = first, tf.zeros_like(first_size)
        has_second = second_size > 0
        room = self._length - 2 - tf.cast(has_second, tf.int64)
        # One by one from the longer, of equal ones from the second, comes to this.
        first_kept = tf.minimum(first_size, tf.maximum(room - second_size, room - room // 2))
        second_kept = tf.minimum(second_size, room - first_kept)
        first += draws[0] % (first_size - first_kept + 1)
        second += draws[1] % (second_size - second_kept + 1)

        place = tf.range(self._length, dtype=tf.int64)[tf.newaxis]
        first_end = (1 + first_kept)[:, tf.newaxis]
        second_end = first_end + (1 + second_kept)[:, tf.newaxis]
        is_second = has_second[:, tf.newaxis] & (place > first_end) & (place <= second_end)
        source = tf.where(
            place <= first_end,
            first[:, tf.newaxis] + place - 1,
            second[:, tf.newaxis] + place - first_end - 1,
        )
        source = tf.clip_by_value(source, 0, tf.size(corpus["tokens"], tf.int64) - 1)
        ids = tf.gather(corpus["tokens"], source)
        ids = tf.where((place == first_end) | (is_second & (place == second_end)), sep_id, ids)
        ids = tf.where(place == 0, cls_id, ids)
        is_real = (place <= first_end) | is_second
        return {
            "token_ids": tf.where(is_real, ids, pad_id),
            "segment_ids": tf.cast(is_second, tf.int32),
            "padding_mask": tf.cast(is_real, tf.int32),
        }
