"""Words to pieces: greedy longest match, in graph."""

import tensorflow as tf
import tensorflow_text as tf_text

from keras_bert_zoo.text.splitting import Words, WordSplitter, rows_of
from keras_bert_zoo.text.unicode_table import UnicodeTable
from keras_bert_zoo.text.vocabulary import CONTINUATION

_LONGEST_TOKEN = 256  # Bytes, without the prefix: what FastWordpieceTokenizer can hold.


class WordPieces:
    """A vocabulary with its lookups. Its tensors are made when first needed.

    It is no layer, so that Keras does not track 30,000 strings one by one.

    Args:
        tokens: the vocabulary, checked.
        table: the characters' properties.
        unknown_token: the token of words that cannot be cut.
        special_tokens: literals that are tokens by themselves wherever they stand in a text.
        max_characters: a word of more normalised characters is unknown.

    Raises:
        ValueError: if a token is too long to be held.
    """

    def __init__(
        self,
        tokens: list[str],
        table: UnicodeTable,
        unknown_token: str,
        special_tokens: tuple[str, ...],
        max_characters: int,
    ):
        self.tokens = tuple(tokens)
        self.ids = {token: number for number, token in enumerate(tokens)}
        self.table = table
        self._unknown_token = unknown_token
        self._special_tokens = special_tokens
        self._max_characters = max_characters
        self._matchable = _matchable(self.tokens, max_characters)
        self._splitter = self._cutter = self._lengths = None

    def __deepcopy__(self, memo):
        return self  # Never changes once made.

    @property
    def splitter(self) -> WordSplitter:
        """Splits texts into the words that `cut` cuts."""
        self._prepare()
        return self._splitter

    def cut(self, words: Words) -> tuple[tf.RaggedTensor, tf.Tensor]:
        """Cuts words into pieces.

        Returns:
            int32 ids, ragged (rows, None), and the place of each piece's first character among
            the normalised ones, int32 (T,).
        """
        self._prepare()
        too_long = words.splits[1:] - words.splits[:-1] > self._max_characters
        strings = tf.where(too_long, "x" * (self._most_bytes() + 1), words.strings)
        if self._special_tokens:
            literals = tf.gather(tf.constant(self._special_tokens), tf.maximum(words.special, 0))
            strings = tf.where(words.special >= 0, literals, strings)
        pieces = self._cutter.tokenize(strings)
        splits = tf.cast(pieces.row_splits, tf.int32)
        ids = tf.RaggedTensor.from_row_splits(
            pieces.values, tf.gather(pieces.row_splits, words.row_splits), validate=False
        )
        # Pieces of a word follow each other without gaps, so their lengths tell where they start;
        # an unknown token is the only one of its word, and starts with it.
        before = tf.cumsum(tf.gather(self._lengths, pieces.values), exclusive=True)
        offsets = words.splits[:-1] - tf.gather(before, splits[:-1])
        return ids, before + tf.gather(offsets, rows_of(splits, tf.size(before)))

    def _most_bytes(self) -> int:
        """Bytes of the longest word that may match: four a character, or a special token."""
        return max(4 * self._max_characters, *(len(x.encode()) for x in self._special_tokens), 0)

    def _prepare(self) -> None:
        if self._cutter is not None:
            return
        # Outside of any graph that is being traced: the tensors outlive it.
        with tf.init_scope(), tf.device("CPU:0"):
            self._splitter = WordSplitter(self.table, self._special_tokens)
            self._lengths = tf.constant(
                [len(x) - len(CONTINUATION) * x.startswith(CONTINUATION) for x in self.tokens],
                tf.int32,
            )
            self._cutter = tf_text.FastWordpieceTokenizer(
                self._matchable,
                suffix_indicator=CONTINUATION,
                max_bytes_per_word=self._most_bytes(),
                token_out_type=tf.int32,
                unknown_token=self._unknown_token,
                no_pretokenization=True,
            )


def _matchable(tokens, max_characters) -> list[str]:
    """The tokens, but for those that can match no word and that the operation refuses."""
    matchable = []
    for number, token in enumerate(tokens):
        body = token.removeprefix(CONTINUATION)
        is_long = len(body.encode("utf-8")) > _LONGEST_TOKEN
        if not token or "\0" in token or (is_long and len(body) > max_characters):
            token = f"\n{number}"  # No word has a line feed, no other token either.
        elif is_long:
            raise ValueError(
                f"Token {number}, {token!r:.80}, is longer than {_LONGEST_TOKEN} bytes in UTF-8. "
                f"Lower max_characters_per_word, now {max_characters}, below its length."
            )
        matchable.append(token)
    return matchable
