"""Dynamic masking for masked-language-model pretraining, vectorised over the batch.

Which tokens are masked, and what takes their place, is a function of (seed, epoch, example): new
in each epoch (RoBERTa, Liu et al. 2019, arXiv 1907.11692), the same in each batch and each run.
"""

import math
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from keras_bert_zoo.text.keyed_random import keyed_integers, keyed_uniform

UNITS = ("token", "whole_word", "ngram")
_UNIT_STREAM, _SPAN_STREAM, _ACTION_STREAM, _REPLACEMENT_STREAM = range(4)


class DynamicMasker:
    """Chooses tokens of each row to be predicted, and hides them (Devlin et al. 2019, section 3.1).

    A row of n real tokens, `[CLS]` and `[SEP]` included, has a budget of
    min(max_predictions, max(1, round(masking_rate * n))) tokens, rounded half to even.
    `unit="token"` masks exactly that many, or all there are to mask. Whole words and n-grams are
    taken in random order, those left out that no longer fit in the budget: it is never exceeded,
    and may not be reached. `[CLS]`, `[SEP]` and `[PAD]` are never chosen; `[UNK]` and `[MASK]` in
    the text only when there is nothing else left.

    Of the chosen tokens `mask_share` become `[MASK]`, `random_share` another token, and the rest
    stay. Unlike google-research/bert, no special token serves as a random replacement.

    Args:
        vocabulary_size: number of tokens V.
        cls_id, sep_id, pad_id, unk_id, mask_id: ids of the special tokens.
        max_predictions: P, the most tokens masked in a row.
        masking_rate: share of the tokens to mask.
        mask_share: share of the masked tokens that become `[MASK]`.
        random_share: share of the masked tokens that become a random token.
        unit: "token"; "whole_word", all pieces of a word or none; or "ngram", spans of 1 to
            `max_ngram` whole words, of n words with p(n) proportional to 1/n (ALBERT, Lan et al.
            2020, arXiv 1909.11942); as long ones fit in a rest of the budget less often, a small
            budget makes short ones somewhat more frequent.
        max_ngram: the longest span.
        continuation_mask: bool (V,), whether a token continues a word; not for unit "token".
        unigram_counts: int (V,), how often each token is in the corpus: random replacements follow
            it ("data noising", Xie et al. 2017, arXiv 1703.02573). Uniform by default.
        seed: any integer.

    Raises:
        ValueError: if an argument is out of range, missing, or of another length than V.
    """

    def __init__(
        self,
        vocabulary_size: int,
        *,
        cls_id: int,
        sep_id: int,
        pad_id: int,
        unk_id: int,
        mask_id: int,
        max_predictions: int,
        masking_rate: float = 0.15,
        mask_share: float = 0.8,
        random_share: float = 0.1,
        unit: str = "token",
        max_ngram: int = 3,
        continuation_mask: Sequence[bool] | None = None,
        unigram_counts: Sequence[int] | None = None,
        seed: int = 0,
    ):
        if unit not in UNITS:
            raise ValueError(f"unit must be one of {UNITS}, received {unit!r}.")
        if max_predictions < 1 or max_ngram < 1:
            raise ValueError(
                "max_predictions and max_ngram must be at least 1, received "
                f"{max_predictions} and {max_ngram}."
            )
        if not 0 < masking_rate <= 1:
            raise ValueError(f"masking_rate must be in (0, 1], received {masking_rate}.")
        if not (min(mask_share, random_share) >= 0 and mask_share + random_share <= 1 + 1e-9):
            raise ValueError(
                "mask_share and random_share must not be negative nor exceed 1 together, "
                f"received {mask_share} and {random_share}."
            )
        if unit != "token" and continuation_mask is None:
            raise ValueError(
                f"unit={unit!r} needs to know which tokens continue a word: pass "
                "continuation_mask, e.g. that of the tokenizer."
            )
        self.max_predictions = max_predictions
        self._rate = masking_rate
        self._mask_share = mask_share
        self._random_share = random_share
        self._unit = unit
        self._max_ngram = max_ngram
        self._seed = seed
        self._mask_id = mask_id
        self._never = (cls_id, sep_id, pad_id)
        self._last_resort = (unk_id, mask_id)
        with tf.init_scope():
            self._continues = None
            if continuation_mask is not None:
                _check_length("continuation_mask", continuation_mask, vocabulary_size)
                self._continues = tf.constant(continuation_mask, tf.bool)
            counts = np.ones(vocabulary_size, np.int64)
            if unigram_counts is not None:
                _check_length("unigram_counts", unigram_counts, vocabulary_size)
                counts = np.array(unigram_counts, np.int64)
            counts[[cls_id, sep_id, pad_id, unk_id, mask_id]] = 0
            if counts.min() < 0 or not counts.any():
                raise ValueError(
                    "Random replacements need a token that is not special and has a count above 0,"
                    f" and no negative counts: received {vocabulary_size} tokens, counts from "
                    f"{counts.min()} to {counts.max()}."
                )
            self._cumulative_counts = tf.constant(np.cumsum(counts))

    @classmethod
    def for_tokenizer(
        cls,
        tokenizer,
        sequence_length: int,
        max_predictions: int | None = None,
        masking_rate: float = 0.15,
        unit: str = "token",
        **kwargs,
    ) -> "DynamicMasker":
        """Makes the masker for a tokenizer's ids.

        Args:
            tokenizer: a `WordPieceTokenizer` with a vocabulary.
            sequence_length: L.
            max_predictions: by default `default_max_predictions(sequence_length, masking_rate)`.
            masking_rate, unit, **kwargs: as the constructor takes them.
        """
        if max_predictions is None:
            max_predictions = default_max_predictions(sequence_length, masking_rate)
        return cls(
            tokenizer.vocabulary_size,
            cls_id=tokenizer.cls_id,
            sep_id=tokenizer.sep_id,
            pad_id=tokenizer.pad_id,
            unk_id=tokenizer.unk_id,
            mask_id=tokenizer.mask_id,
            max_predictions=max_predictions,
            masking_rate=masking_rate,
            unit=unit,
            continuation_mask=None if unit == "token" else tokenizer.continuation_mask,
            **kwargs,
        )

    def __call__(self, token_ids, padding_mask, epoch, example) -> dict[str, tf.Tensor]:
        """Masks a batch.

        Args:
            token_ids: int32 (B, L).
            padding_mask: int32 (B, L), 1 for real tokens.
            epoch: int64 scalar or (B,).
            example: int64 (B,), the index of each row's example in the corpus.

        Returns:
            token_ids: int32 (B, L), with the chosen tokens hidden.
            masked_positions: int32 (B, P), ascending; 0 where there is none.
            masked_ids: int32 (B, P), the tokens that stood there; 0 where there is none.
            masked_weights: float32 (B, P), 1 where a token was chosen, else 0.
        """
        example = tf.convert_to_tensor(example, tf.int64)
        real = tf.cast(padding_mask, tf.bool)
        chosen = self._choose(token_ids, real, epoch, example)
        # The P leftmost, in order: top_k of numbers that fall from left to right.
        length = tf.shape(token_ids)[1]
        rank = tf.where(chosen, tf.range(length, 0, -1), 0)
        rank = tf.pad(rank, [[0, 0], [0, self.max_predictions]])
        rank = tf.math.top_k(rank, self.max_predictions).values
        is_slot = rank > 0
        positions = tf.where(is_slot, length - rank, 0)
        ids = tf.where(is_slot, tf.gather(token_ids, positions, batch_dims=1), 0)
        hidden = self._hide(ids, epoch, example)
        rows = tf.broadcast_to(tf.range(tf.shape(positions)[0])[:, tf.newaxis], tf.shape(positions))
        where = tf.boolean_mask(tf.stack([rows, positions], -1), is_slot)
        masked = tf.tensor_scatter_nd_update(token_ids, where, tf.boolean_mask(hidden, is_slot))
        return {
            "token_ids": masked,
            "masked_positions": positions,
            "masked_ids": ids,
            "masked_weights": tf.cast(is_slot, tf.float32),
        }

    def _choose(self, token_ids, real, epoch, example):
        """bool (B, L): the tokens to predict."""
        rows, length = tf.shape(token_ids)[0], tf.shape(token_ids)[1]
        count = tf.reduce_sum(tf.cast(real, tf.float64), 1)
        budget = tf.cast(tf.maximum(tf.round(self._rate * count), 1), tf.int32)
        budget = tf.minimum(budget, self.max_predictions)

        candidate = real & ~_is_any(token_ids, self._never)
        ordinary = candidate & ~_is_any(token_ids, self._last_resort)
        starts = self._unit_starts(token_ids, candidate, ordinary, epoch, example)
        unit = tf.cumsum(tf.cast(starts, tf.int32), axis=1) - 1
        # Tokens that are no candidates are counted in a unit of their own, which is cut off.
        unit = tf.where(candidate, unit, length)
        flat = tf.reshape(unit + tf.range(rows)[:, tf.newaxis] * (length + 1), [-1])

        def count_in_units(flags):
            total = tf.math.unsorted_segment_sum(
                tf.reshape(tf.cast(flags, tf.int32), [-1]), flat, rows * (length + 1)
            )
            return tf.reshape(total, [rows, length + 1])[:, :length]

        sizes = count_in_units(candidate)
        key = keyed_integers(self._seed, epoch, example, _UNIT_STREAM, length) % 2**30
        # Last in order: units that do not exist; before them, those of the last resort.
        key = tf.cast(key, tf.int32) + 2**30 * tf.cast(count_in_units(ordinary) > 0, tf.int32)
        order = tf.math.top_k(tf.where(sizes > 0, key, -1), length).indices
        taken = _take_while_they_fit(tf.gather(sizes, order, batch_dims=1), budget)
        place = tf.argsort(order, axis=1)
        taken = tf.gather(taken, place, batch_dims=1)
        taken = tf.pad(taken, [[0, 0], [0, 1]])
        return tf.gather(taken, unit, batch_dims=1)

    def _unit_starts(self, token_ids, candidate, ordinary, epoch, example):
        """bool (B, L): the first tokens of what is masked whole or not at all."""
        if self._unit == "token":
            return candidate
        # A word or span has neither special tokens in it nor a gap.
        joins = ordinary & tf.pad(ordinary, [[0, 0], [1, 0]])[:, :-1]
        words = candidate & ~(joins & tf.gather(self._continues, token_ids))
        if self._unit == "whole_word":
            return words
        # The row is tiled with spans of drawn lengths; a random choice of tiles then has p(n).
        length = tf.shape(token_ids)[1]
        share = 1.0 / np.arange(1, self._max_ngram + 1)
        bounds = tf.constant(np.cumsum(share / share.sum())[:-1], tf.float32)
        draws = keyed_uniform(self._seed, epoch, example, _SPAN_STREAM, length)
        spans = 1 + tf.reduce_sum(tf.cast(draws[..., tf.newaxis] >= bounds, tf.int32), -1)
        word = tf.cumsum(tf.cast(words, tf.int32), axis=1) - 1
        tile = tf.searchsorted(tf.cumsum(spans, axis=1), word, side="right")
        is_new_tile = tile != tf.pad(tile, [[0, 0], [1, 0]], constant_values=-1)[:, :-1]
        return words & (is_new_tile | ~joins)

    def _hide(self, ids, epoch, example):
        """int32 (B, P): what is read in place of the chosen tokens."""
        count = self.max_predictions
        action = keyed_uniform(self._seed, epoch, example, _ACTION_STREAM, count)
        draw = keyed_integers(self._seed, epoch, example, _REPLACEMENT_STREAM, count)
        draw = tf.reshape(draw % self._cumulative_counts[-1], [-1])
        noise = tf.searchsorted(self._cumulative_counts, draw, side="right")
        noise = tf.reshape(noise, tf.shape(ids))
        is_random = action < self._mask_share + self._random_share
        hidden = tf.where(is_random, noise, ids)
        return tf.where(action < self._mask_share, self._mask_id, hidden)


def default_max_predictions(sequence_length: int, masking_rate: float = 0.15) -> int:
    """The paper's 20 at a length of 128 and 76 at 512; else the rate's share, rounded up."""
    if not 0 < masking_rate <= 1:
        raise ValueError(f"masking_rate must be in (0, 1], received {masking_rate}.")
    published = {128: 20, 512: 76}
    if masking_rate == 0.15 and sequence_length in published:
        return published[sequence_length]
    return math.ceil(masking_rate * sequence_length)


def _take_while_they_fit(sizes, budget):
    """Goes through units in order and takes each that fits in what is left of the budget.

    Args: sizes: int32 (B, N), 0 for none. budget: int32 (B,).
    Returns: bool (B, N).
    """

    def take(taken, is_open, left):
        fits = is_open & (sizes <= left[:, tf.newaxis])
        total = tf.cumsum(tf.where(fits, sizes, 0), axis=1)
        new = fits & (total <= left[:, tf.newaxis])
        left -= tf.reduce_sum(tf.where(new, sizes, 0), 1)
        return taken | new, fits & ~new, left

    # Each pass takes all before the first that does not fit; the first of the rest always does.
    taken, _, _ = tf.while_loop(
        lambda taken, is_open, left: tf.reduce_any(is_open & (sizes <= left[:, tf.newaxis])),
        take,
        (tf.zeros_like(sizes, tf.bool), sizes > 0, budget),
    )
    return taken


def _is_any(token_ids, ids):
    found = token_ids == ids[0]
    for other in ids[1:]:
        found |= token_ids == other
    return found


def _check_length(name, values, vocabulary_size):
    if np.shape(values) != (vocabulary_size,):
        raise ValueError(
            f"{name} must have one entry for each of the {vocabulary_size} tokens, "
            f"received shape {np.shape(values)}."
        )


def next_tokens(token_ids, padding_mask) -> dict[str, tf.Tensor]:
    """What a left-to-right language model predicts: after each real token the next one.

    Args:
        token_ids: int32 (B, L).
        padding_mask: int32 (B, L), 1 for real tokens, which come first.

    Returns:
        As `DynamicMasker` gives it, with P = L - 1 and no `token_ids`: masked_positions and
        masked_ids, int32 (B, P), and masked_weights, float32 (B, P), 0 where no real token follows.
    """
    following = token_ids[:, 1:]
    positions = tf.range(tf.shape(following)[1])[tf.newaxis]
    return {
        "masked_positions": tf.broadcast_to(positions, tf.shape(following)),
        "masked_ids": following,
        "masked_weights": tf.cast(padding_mask[:, 1:], tf.float32),
    }
