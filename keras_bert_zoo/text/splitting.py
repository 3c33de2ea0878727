"""Strings to normalised words, in graph, by BERT's rules and with every character's origin.

Everything is flat: the batch is one row of code points, a table turns each into 0, 1 or more
normalised ones, and words are stretches of those. Rows are found again by their row splits.
"""

from typing import NamedTuple

import tensorflow as tf

from keras_bert_zoo.text import unicode_table as table_module
from keras_bert_zoo.text.unicode_table import SPECIAL_BASE, UnicodeTable

_SIGMA, _FINAL_SIGMA = 0x03A3, 0x03C2
_NOTHING = 0xFFFD  # A code point that the rules delete.
_REPLACEMENT = 0xFFFD  # What decoding puts for malformed UTF-8; deleted, as in the reference.


class Words(NamedTuple):
    """The words of a batch; N code points, M normalised ones, W words, R rows; all int32.

    Attributes:
        strings: (W,) the words in UTF-8.
        splits: (W + 1,) where each word starts among the normalised code points.
        row_splits: (R + 1,) where each row starts among the words.
        special: (W,) number of the special token that the word is, or negative.
        sources: (M,) the code point that each normalised one comes from.
    """

    strings: tf.Tensor
    splits: tf.Tensor
    row_splits: tf.Tensor
    special: tf.Tensor
    sources: tf.Tensor


class Origins(NamedTuple):
    """Where each of N code points lies in its string.

    Attributes:
        row_splits: (R + 1,) where each row starts among the code points.
        byte_starts: (N,) first byte, counted in the row.
        byte_ends: (N,) first byte after it.
        ends: (N,) the code point after it and after the dropped marks that follow it.
    """

    row_splits: tf.Tensor
    byte_starts: tf.Tensor
    byte_ends: tf.Tensor
    ends: tf.Tensor


class WordSplitter:
    """Splits strings into normalised words with a `UnicodeTable`.

    Args:
        table: the rules, one entry a code point.
        special_tokens: literals that are words by themselves wherever they stand, case and all.
    """

    def __init__(self, table: UnicodeTable, special_tokens: tuple[str, ...] = ()):
        self._lowercase = table.lowercase
        self._strip_accents = table.strip_accents
        self._special_tokens = special_tokens
        self._stage1 = tf.constant(table.stage1)
        self._stage2 = tf.constant(table.stage2)
        self._flags = tf.constant(table.flags)
        self._starts = tf.constant(table.starts)
        self._expansions = tf.constant(table.expansions)
        self._combining = tf.constant(table.combining)

    def split(self, strings: tf.Tensor) -> Words:
        """Splits a batch of strings (B,) into words."""
        decoded = tf.strings.unicode_decode(strings, "UTF-8", replacement_char=_REPLACEMENT)
        return self._split(decoded.values, tf.cast(decoded.row_splits, tf.int32))[0]

    def split_with_origins(self, strings: tf.Tensor) -> tuple[Words, Origins]:
        """Splits a batch of strings (B,) into words and tells where every character was."""
        decoded, offsets = tf.strings.unicode_decode_with_offsets(
            strings, "UTF-8", replacement_char=_REPLACEMENT
        )
        row_splits = tf.cast(decoded.row_splits, tf.int32)
        words, absorbed = self._split(decoded.values, row_splits)
        byte_starts = tf.cast(offsets.values, tf.int32)
        # A character ends where the next one of its row starts, or with the row.
        rows_with_text = tf.boolean_mask(strings, row_splits[1:] > row_splits[:-1])
        last = tf.boolean_mask(row_splits[1:], row_splits[1:] > row_splits[:-1]) - 1
        byte_ends = tf.tensor_scatter_nd_update(
            tf.concat([byte_starts[1:], byte_starts[:1]], 0),
            last[:, tf.newaxis],
            tf.strings.length(rows_with_text, unit="BYTE"),
        )
        # The next code point that is not absorbed into the one before.
        size = tf.size(byte_starts)
        stands = tf.logical_or(~absorbed, _row_marks(row_splits, size) > 0)
        standing = tf.concat([_positions(stands), [size]], 0)
        ends = tf.gather(standing, tf.cumsum(tf.cast(stands, tf.int32)))
        return words, Origins(row_splits, byte_starts, byte_ends, ends)

    def _split(self, code_points, row_splits):
        """Words, and whether each code point belongs to the character before it (N,)."""
        row_marks = _row_marks(row_splits, tf.size(code_points))
        literal_rest = tf.zeros_like(code_points, tf.bool)
        if self._special_tokens:
            code_points, literal_rest = self._mark_special_tokens(code_points, row_splits)
        if self._lowercase:
            has_sigma = tf.reduce_any(code_points == _SIGMA)
            code_points = tf.cond(
                has_sigma,
                lambda: self._finish_sigmas(code_points, row_marks),
                lambda: code_points,
            )
        entries, flags = self._look_up(code_points)
        stretches = _stretches(flags, row_marks)

        # Each code point's expansion, laid end to end. (Three code points at the most, so that
        # `tf.repeat`, which takes space for the longest everywhere, is the fastest way.)
        counts = flags & table_module.COUNT_MASK
        sources = tf.repeat(tf.range(tf.size(counts)), counts)
        size = tf.size(sources)
        first = tf.gather(self._starts, entries) - tf.cumsum(counts, exclusive=True)
        expansion = tf.gather(self._expansions, tf.gather(first, sources) + tf.range(size))
        normal = tf.gather(code_points, sources) + tf.bitwise.right_shift(expansion, 1)
        punctuation = (expansion & 1) > 0

        # A word starts after a gap, and on either side of punctuation.
        stretch = tf.gather(stretches, sources)
        starts = tf.concat(
            [
                tf.ones([tf.minimum(size, 1)], tf.bool),
                (stretch[1:] != stretch[:-1]) | punctuation[1:] | punctuation[:-1],
            ],
            0,
        )
        starts = _positions(starts)
        if self._strip_accents:
            normal = self._put_in_canonical_order(normal, sources, stretch, flags)
        splits = tf.concat([starts, [size]], 0)
        strings = tf.strings.unicode_encode(
            tf.RaggedTensor.from_row_splits(normal, splits, validate=False), "UTF-8"
        )
        words = Words(
            strings=strings,
            splits=splits,
            row_splits=tf.searchsorted(tf.gather(sources, starts), row_splits),
            special=tf.gather(normal, starts) - SPECIAL_BASE,
            sources=sources,
        )
        return words, literal_rest | (flags & table_module.MARK > 0)

    def _look_up(self, code_points):
        """Entry number and flags of each code point."""
        block_size = 1 << table_module.BLOCK_BITS
        blocks = tf.gather(
            self._stage1, tf.bitwise.right_shift(code_points, table_module.BLOCK_BITS)
        )
        entries = tf.gather(self._stage2, blocks + (code_points & (block_size - 1)))
        return entries, tf.gather(self._flags, entries)

    def _mark_special_tokens(self, code_points, row_splits):
        """Puts a code point past Unicode for each special token, and nothing for its rest."""
        nowhere = tf.zeros_like(code_points, tf.bool)
        opens = tf.zeros_like(code_points, tf.bool)
        for first in sorted({token[0] for token in self._special_tokens}):
            opens |= code_points == ord(first)

        def mark():
            marked, rest = code_points, nowhere
            candidates = _positions(opens)
            row_ends = tf.gather(row_splits, tf.searchsorted(row_splits, candidates, "right"))
            for number, token in enumerate(self._special_tokens):
                literal = tf.constant([ord(character) for character in token], tf.int32)
                window = candidates[:, tf.newaxis] + tf.range(len(token))
                text = tf.gather(marked, tf.minimum(window, tf.size(marked) - 1))
                fits = candidates + len(token) <= row_ends
                hits = tf.boolean_mask(window, fits & tf.reduce_all(text == literal, axis=1))
                marked = _put(marked, hits[:, :1], SPECIAL_BASE + number)
                marked = _put(marked, hits[:, 1:], _NOTHING)
                rest = _put(rest, hits[:, 1:], True)
            return marked, rest

        return tf.cond(tf.reduce_any(opens), mark, lambda: (code_points, nowhere))

    def _finish_sigmas(self, code_points, row_marks):
        """Final sigmas, told by the nearest characters of the word that are not looked through."""
        _, flags = self._look_up(code_points)
        stretches = _stretches(flags, row_marks)
        seen = flags & table_module.IGNORABLE == 0
        is_cased = tf.boolean_mask(flags & table_module.CASED > 0, seen)
        stretch = tf.boolean_mask(stretches, seen)
        near = is_cased[1:] & is_cased[:-1] & (stretch[1:] == stretch[:-1])
        edge = tf.zeros([1], tf.bool)
        before, after = tf.concat([edge, near], 0), tf.concat([near, edge], 0)
        final = (tf.boolean_mask(code_points, seen) == _SIGMA) & before & ~after
        where = tf.gather(_positions(seen), _positions(final))
        return _put(code_points, where, _FINAL_SIGMA)

    def _put_in_canonical_order(self, normal, sources, stretch, flags):
        """Sorts what is left of each run of combining characters by its combining class.

        Only code points move: `sources` stays in the order of the text.
        """

        def sort():
            known, classes = self._combining[:, 0], self._combining[:, 1]
            nearest = tf.minimum(tf.searchsorted(known, normal), tf.size(known) - 1)
            combines = tf.gather(known, nearest) == normal
            # A run ends at every starter, those that were dropped included.
            hidden = tf.cumsum(tf.cast(flags & table_module.HIDDEN_STARTER > 0, tf.int32))
            runs = stretch + tf.cumsum(tf.cast(~combines, tf.int32)) + tf.gather(hidden, sources)
            places = _positions(combines)
            key = 256 * tf.cast(tf.gather(runs, places), tf.int64)
            key += tf.cast(tf.gather(classes, tf.gather(nearest, places)), tf.int64)
            moved = tf.gather(normal, tf.gather(places, tf.argsort(key, stable=True)))
            return tf.tensor_scatter_nd_update(normal, places[:, tf.newaxis], moved)

        reorders = tf.reduce_any(flags & table_module.REORDERS > 0)
        return tf.cond(reorders, sort, lambda: normal)


def rows_of(splits: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    """The row of each of `size` values, from row splits, in linear space."""
    return tf.cumsum(_row_marks(splits, size)) - 1


def _positions(mask):
    return tf.cast(tf.where(mask)[:, 0], tf.int32)


def _put(values, places, value):
    """Writes one value at all of the places."""
    places = tf.reshape(places, [-1, 1])
    updates = tf.fill(tf.shape(places)[:1], tf.constant(value, values.dtype))
    return tf.tensor_scatter_nd_update(values, places, updates)


def _row_marks(row_splits, size):
    """How many rows start at each of `size` values."""
    starts = row_splits[:-1, tf.newaxis]
    return tf.scatter_nd(starts, tf.ones_like(starts[:, 0]), [size + 1])[:-1]


def _stretches(flags, row_marks):
    """Numbers the stretches between white space, ideographs and row starts."""
    apart = tf.cast(flags & table_module.APART > 0, tf.int32)
    before = tf.concat([tf.zeros([1], tf.int32), apart], 0)[:-1]
    return tf.cumsum(apart + before + row_marks)
