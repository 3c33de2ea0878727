"""Sentences of words to rows of an encoder, in which every word has one place.

A word's place is that of its first piece (Devlin et al. 2019, arXiv 1810.04805, section 5.3). A
sentence that is too long is read through windows, and a word's place is in the window in which it
has most context.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from keras_bert_zoo.text.layer import check_encodable
from keras_bert_zoo.text.vocabulary import CONTINUATION
from keras_bert_zoo.text.windows import positions

_CHUNK = 1 << 16  # Words, or texts, that are tokenized together.


@dataclasses.dataclass(frozen=True)
class WordPieceWords:
    """The words of sentences and their pieces, end to end.

    Attributes:
        pieces: int32 (P,), ids.
        piece_counts: int64 (W,), pieces of each word; none for a word that vanishes.
        word_counts: int64 (n,), words of each sentence.
        char_starts, char_ends: int64 (W,), where each word stands in its text; `None` for words
            that were given one by one.
    """

    pieces: np.ndarray
    piece_counts: np.ndarray
    word_counts: np.ndarray
    char_starts: np.ndarray | None = None
    char_ends: np.ndarray | None = None


def read_words(tokenizer, sentences: Sequence[Sequence[str]]) -> WordPieceWords:
    """Tokenizes sentences that are given word by word; each word by itself, all at once.

    Raises:
        ValueError: if a word is no string, or a sentence no list of such.
    """
    words, counts = [], np.zeros(len(sentences), np.int64)
    for number, sentence in enumerate(sentences):
        if isinstance(sentence, (str, bytes)):
            raise ValueError(
                f"A sentence is a list of words, and sentence {number} is {sentence!r:.200}. "
                "Texts and lists of words cannot be mixed."
            )
        for word in sentence:
            if not isinstance(word, str):
                raise ValueError(
                    f"Words are strings. Sentence {number} has the word {word!r:.200} "
                    f"({type(word).__name__})."
                )
            if not word.isascii():
                check_encodable(word, f"A word of sentence {number}")
        counts[number] = len(sentence)
        words.extend(sentence)
    # Most words of a text stand there several times.
    distinct = {word: place for place, word in enumerate(dict.fromkeys(words))}
    ids, lengths = _in_chunks(list(distinct), lambda part: _split(tokenizer(part)))
    chosen = np.fromiter((distinct[word] for word in words), np.int64, len(words))
    starts = (np.cumsum(lengths) - lengths)[chosen]
    word, place = positions(lengths[chosen])
    return WordPieceWords(ids[starts[word] + place], lengths[chosen], counts)


def read_word_spans(tokenizer, texts: Sequence[str]) -> WordPieceWords:
    """Splits texts into words as the tokenizer does, at white space and punctuation."""
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise ValueError(f"Texts are strings. Text {number} is {text!r:.200}.")
        check_encodable(text, f"Text {number}")
    continues = np.array([token.startswith(CONTINUATION) for token in tokenizer.vocabulary])

    def read(part):
        spans = tokenizer.tokenize_with_spans(part)
        flat = (spans.token_ids, spans.char_starts, spans.char_ends)
        return (*(field.values.numpy() for field in flat), spans.token_ids.row_lengths().numpy())

    ids, starts, ends, lengths = _in_chunks(texts, read)
    text, place = positions(lengths)
    first = np.flatnonzero((place == 0) | ~continues[ids])
    bounds = np.append(first, len(ids))
    return WordPieceWords(
        pieces=ids,
        piece_counts=np.diff(bounds),
        word_counts=np.bincount(text[first], minlength=len(texts)),
        char_starts=starts[first],
        char_ends=ends[bounds[1:] - 1],
    )


@dataclasses.dataclass(frozen=True)
class WordRows:
    """Rows `[CLS] pieces [SEP]` without padding, end to end; of each sentence one or more.

    Attributes:
        token_ids: int32 (T,).
        splits: int64 (R + 1,), where each row starts.
        words: int64 (T,), the word of each piece in the row that the word's place is in; else -1.
        places: int64 (W,), the place of each word among all T; -1 for one that has no piece.
    """

    token_ids: np.ndarray
    splits: np.ndarray
    words: np.ndarray
    places: np.ndarray

    def __len__(self):
        return len(self.splits) - 1

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each row, int64 (R,)."""
        return np.diff(self.splits)

    def features(self) -> dict[str, tf.RaggedTensor]:
        """The inputs of an encoder, int32 ragged (R, None)."""
        ids = self.ragged(self.token_ids)
        rest = {"segment_ids": tf.zeros_like(ids), "padding_mask": tf.ones_like(ids)}
        return {"token_ids": ids, **rest}

    def ragged(self, values: np.ndarray) -> tf.RaggedTensor:
        """One value a token, (T,), as ragged rows (R, None)."""
        return tf.RaggedTensor.from_row_splits(tf.constant(values), self.splits)

    def spread(self, firsts: np.ndarray, filling, rests: np.ndarray | None = None) -> np.ndarray:
        """Puts one value a word at its place.

        Args:
            firsts: (W,), for the first piece of each word.
            filling: the value of all other tokens.
            rests: (W,), for the other pieces, or `None`.

        Returns:
            An array (T,), of the dtype of `firsts`.
        """
        values = np.full(len(self.token_ids), filling, firsts.dtype)
        if rests is not None:
            inside = self.words >= 0
            values[inside] = rests[self.words[inside]]
        known = self.places >= 0
        values[self.places[known]] = firsts[known]
        return values


def word_rows(
    words: WordPieceWords, sequence_length: int, cls_id: int, sep_id: int, stride: int | None = None
) -> WordRows:
    """Packs sentences into rows, long ones into several that overlap.

    Args:
        words: the words.
        sequence_length: most tokens of a row, special tokens included.
        cls_id, sep_id: ids of `[CLS]` and `[SEP]`.
        stride: least number of pieces from the start of a window to that of the next, which
            begins with a word; by default half of what a window holds.

    Raises:
        ValueError: if the length leaves no room, or the stride is not from 1 to that room.
    """
    room = sequence_length - 2
    if room < 1:
        raise ValueError(f"`sequence_length` must be at least 3. Received: {sequence_length}")
    stride = max(1, room // 2) if stride is None else stride
    if not isinstance(stride, int) or not 1 <= stride <= room:
        raise ValueError(
            f"`stride` is a number of pieces from 1 to {room}, which a row of {sequence_length} "
            f"tokens has. Received: {stride!r}"
        )
    piece_word, piece_place = positions(words.piece_counts)
    sentence_of_word, _ = positions(words.word_counts)
    sentence_sizes = np.bincount(sentence_of_word[piece_word], minlength=len(words.word_counts))
    bases = np.cumsum(sentence_sizes) - sentence_sizes
    is_first = piece_place == 0

    starts, sizes = [], []  # Of the rows, in pieces.
    for base, size in zip(bases.tolist(), sentence_sizes.tolist(), strict=True):
        if size > room:
            word_starts = np.flatnonzero(is_first[base : base + size])
            begins = _window_starts(word_starts, size, room, stride)
            starts.extend(base + begin for begin in begins)
            sizes.extend(min(room, size - begin) for begin in begins)
        else:
            starts.append(base)
            sizes.append(size)
    starts, sizes = np.array(starts, np.int64), np.array(sizes, np.int64)

    splits = np.concatenate([[0], np.cumsum(sizes + 2)])
    row, place = positions(sizes)
    piece = starts[row] + place
    token = splits[row] + 1 + place
    token_ids = np.full(splits[-1], sep_id, np.int32)
    token_ids[splits[:-1]] = cls_id
    token_ids[token] = words.pieces[piece]

    # Of the rows that hold a word's first piece, the first with the most to its nearer side.
    context = np.minimum(place, sizes[row] - 1 - place)
    held = np.flatnonzero(is_first[piece])
    held = held[np.lexsort((row[held], -context[held], piece_word[piece[held]]))]
    _, best = np.unique(piece_word[piece[held]], return_index=True)
    best = held[best]
    places = np.full(len(words.piece_counts), -1)
    places[piece_word[piece[best]]] = token[best]
    row_of_word = np.full(len(places), -1)
    row_of_word[piece_word[piece[best]]] = row[best]
    owned = np.full(len(token_ids), -1)
    owned[token] = np.where(row_of_word[piece_word[piece]] == row, piece_word[piece], -1)
    return WordRows(token_ids, splits, owned, places)


def _window_starts(word_starts, size, room, stride) -> list[int]:
    """Where windows over `size` pieces start, at words, so that each word starts in one."""
    starts = [0]
    while starts[-1] + room < size:
        # The last window is as long as can be.
        wanted = min(starts[-1] + stride, size - room)
        place = np.searchsorted(word_starts, max(wanted, starts[-1] + 1))
        if place == len(word_starts):
            break  # What is left are further pieces of a word that has started.
        starts.append(int(word_starts[place]))
    return starts


def _split(ids):
    return ids.values.numpy(), ids.row_lengths().numpy()


def _in_chunks(texts, read) -> list[np.ndarray]:
    """Joins what `read` gives for a part of the texts after another."""
    parts = [
        read(tf.constant(texts[first : first + _CHUNK], tf.string))
        for first in range(0, max(len(texts), 1), _CHUNK)
    ]
    return [np.concatenate(columns) for columns in zip(*parts, strict=True)]
