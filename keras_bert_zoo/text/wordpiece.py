"""WordPiece tokenization as BERT does it, in graph (Devlin et al. 2019, arXiv 1810.04805)."""

import os
from collections.abc import Mapping, Sequence, Set
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from keras_bert_zoo.text.layer import TextLayer
from keras_bert_zoo.text.pieces import WordPieces
from keras_bert_zoo.text.splitting import rows_of
from keras_bert_zoo.text.unicode_table import UnicodeTable, build_unicode_table
from keras_bert_zoo.text.vocabulary import (
    CONTINUATION,
    check_vocabulary,
    read_vocabulary,
    write_vocabulary,
)

_VOCABULARY_FILE, _TABLE_FILE = "vocab.txt", "unicode_table.npz"


class TokenSpans(NamedTuple):
    """Token ids and where each token stands in its original string.

    All are int32 and ragged alike, (B, None); for a single text, tensors of shape (None,).
    `text[char_start:char_end]` and `text.encode()[byte_start:byte_end]` are the token's text.
    """

    token_ids: tf.RaggedTensor
    byte_starts: tf.RaggedTensor
    byte_ends: tf.RaggedTensor
    char_starts: tf.RaggedTensor
    char_ends: tf.RaggedTensor


@keras.saving.register_keras_serializable(package="keras_bert_zoo")
class WordPieceTokenizer(TextLayer):
    """Turns texts into token ids by the rules of google-research/bert.

    The text is cleaned, split at white space, ideographs and punctuation, lower-cased and stripped
    of accents if `lowercase`, and each word is cut into the longest pieces that the vocabulary
    has, from the left; the second and later pieces of a word are those written `##x`. A word that
    cannot be cut is one unknown token. The characters' properties are those of the Python that
    first built the tokenizer; they and the vocabulary are saved with the layer.

    Args:
        vocabulary: path of a vocabulary file, or the tokens in the order of their ids. It must
            hold `[PAD]`, `[CLS]`, `[SEP]`, `[MASK]` and the unknown token. Without one, the layer
            can be wired into a model, and gets it when the model's file is loaded.
        lowercase: whether the vocabulary is of an uncased model.
        max_characters_per_word: a word of more normalised characters is unknown.
        special_tokens_in_text: whether a special token written in the text, like `[MASK]`, is that
            token. By default it is text like any other.
        unknown_token: the token of words that cannot be cut.

    Raises:
        ValueError: if the vocabulary lacks a special token or has a token twice.
    """

    def __init__(
        self,
        vocabulary: str | os.PathLike | Sequence[str] | None = None,
        lowercase: bool = True,
        max_characters_per_word: int = 100,
        special_tokens_in_text: bool = False,
        unknown_token: str = "[UNK]",
        **kwargs,
    ):
        super().__init__(**kwargs)
        if max_characters_per_word < 1:
            raise ValueError(
                f"max_characters_per_word must be at least 1, received {max_characters_per_word}."
            )
        self.lowercase = bool(lowercase)
        self.max_characters_per_word = int(max_characters_per_word)
        self.special_tokens_in_text = bool(special_tokens_in_text)
        self.unknown_token = unknown_token
        self._pieces: WordPieces | None = None
        if vocabulary is not None:
            if isinstance(vocabulary, (str, os.PathLike)):
                vocabulary = read_vocabulary(vocabulary)
            if isinstance(vocabulary, (Mapping, Set)):
                raise ValueError(
                    "vocabulary must be a path, or the tokens in the order of their ids, received "
                    f"a {type(vocabulary).__name__}, whose order is not that: sort it by id."
                )
            self._set(list(vocabulary), build_unicode_table(self.lowercase))

    def call(self, texts):
        """Tokenizes texts.

        Args:
            texts: one text or a batch (B,).

        Returns:
            int32 ids: a `tf.RaggedTensor` (B, None), or a tensor (None,) for one text.
        """
        batch = tf.reshape(texts, [-1])
        with tf.device("CPU:0"):
            pieces = self._loaded()
            ids, _ = pieces.cut(pieces.splitter.split(batch))
        return ids if texts.shape.rank else ids.values

    def tokenize(self, texts):
        """The same as calling the layer."""
        return self(texts)

    def tokenize_with_spans(self, texts) -> TokenSpans:
        """Tokenizes texts and tells where every token stands in the original text.

        A span reaches from the character that the token's first normalised character comes from
        to the one of its last, with the combining marks after it that normalising dropped.

        Args:
            texts: as for a call.
        """
        texts = self.convert_inputs(texts)
        with tf.device("CPU:0"):
            pieces = self._loaded()
            words, origins = pieces.splitter.split_with_origins(tf.reshape(texts, [-1]))
            ids, starts = pieces.cut(words)
            # Pieces lie end to end, across words too. (Without any piece, no end is left.)
            ends = tf.concat([starts[1:], tf.size(words.sources)[tf.newaxis]], 0)
            ends = ends[: tf.size(starts)]
            first = tf.gather(words.sources, starts)
            last = tf.gather(origins.ends, tf.gather(words.sources, ends - 1)) - 1
            rows = rows_of(tf.cast(ids.row_splits, tf.int32), tf.size(starts))
            row_start = tf.gather(origins.row_splits, rows)
            spans = TokenSpans(
                token_ids=ids,
                byte_starts=ids.with_values(tf.gather(origins.byte_starts, first)),
                byte_ends=ids.with_values(tf.gather(origins.byte_ends, last)),
                char_starts=ids.with_values(first - row_start),
                char_ends=ids.with_values(last + 1 - row_start),
            )
        return spans if texts.shape.rank else TokenSpans(*(field.values for field in spans))

    def detokenize(self, ids) -> tf.Tensor:
        """Joins tokens into text: pieces of a word together, words with spaces between.

        It cannot bring back case, accents or spacing. Special tokens are written out, but for
        padding, which is left out.

        Args:
            ids: int ids (B, None), ragged or dense, or (None,).

        Returns:
            strings (B,), or a scalar.
        """
        if not tf.is_tensor(ids):
            ids = tf.ragged.constant(ids, dtype=tf.int32)
        kept = tf.ragged.boolean_mask(ids, ids != self.pad_id)
        tokens = tf.gather(tf.constant(self.vocabulary), kept)
        text = tf.strings.reduce_join(tokens, axis=-1, separator=" ")
        return tf.strings.regex_replace(text, f" {CONTINUATION}", "")

    def recognising_special_tokens(self) -> "WordPieceTokenizer":
        """The same tokenizer with `special_tokens_in_text=True`."""
        config = {**self.get_config(), "name": None, "special_tokens_in_text": True}
        tokenizer = WordPieceTokenizer.from_config(config)
        tokenizer._set(self.vocabulary, self._loaded().table)
        return tokenizer

    @property
    def has_vocabulary(self) -> bool:
        """Whether the vocabulary is there; not yet so while a saved model is being rebuilt."""
        return self._pieces is not None

    @property
    def vocabulary(self) -> list[str]:
        """The tokens in the order of their ids."""
        return list(self._loaded().tokens)

    @property
    def vocabulary_size(self) -> int:
        return len(self._loaded().tokens)

    @property
    def unicode_version(self) -> str:
        """The version of the Unicode data that the characters' properties come from."""
        return self._loaded().table.unicode_version

    @property
    def continuation_mask(self) -> np.ndarray:
        """bool (V,): whether a token continues a word."""
        return np.array([token.startswith(CONTINUATION) for token in self._loaded().tokens])

    def token_to_id(self, token: str) -> int:
        """The id of a token; a ValueError if the vocabulary does not have it."""
        try:
            return self._loaded().ids[token]
        except KeyError:
            raise ValueError(
                f"The vocabulary of {self.vocabulary_size} tokens has no {token!r}."
            ) from None

    def id_to_token(self, token_id: int) -> str:
        """The token of an id; a ValueError if there is none."""
        if not 0 <= token_id < self.vocabulary_size:
            raise ValueError(
                f"No token has id {token_id}: ids are 0 to {self.vocabulary_size - 1}."
            )
        return self._loaded().tokens[token_id]

    @property
    def pad_id(self) -> int:
        return self.token_to_id("[PAD]")

    @property
    def unk_id(self) -> int:
        return self.token_to_id(self.unknown_token)

    @property
    def cls_id(self) -> int:
        return self.token_to_id("[CLS]")

    @property
    def sep_id(self) -> int:
        return self.token_to_id("[SEP]")

    @property
    def mask_id(self) -> int:
        return self.token_to_id("[MASK]")

    @property
    def special_ids(self) -> tuple[int, ...]:
        """The ids of the five special tokens, in ascending order."""
        return tuple(sorted(self.token_to_id(token) for token in self._special_tokens()))

    def compute_output_spec(self, texts):
        shape = (*texts.shape, None)
        return keras.KerasTensor(shape, dtype="int32", ragged=len(shape) > 1)

    def get_config(self) -> dict:
        return {
            **super().get_config(),
            "lowercase": self.lowercase,
            "max_characters_per_word": self.max_characters_per_word,
            "special_tokens_in_text": self.special_tokens_in_text,
            "unknown_token": self.unknown_token,
        }

    def save_assets(self, dir_path: str) -> None:
        pieces = self._loaded()
        write_vocabulary(os.path.join(dir_path, _VOCABULARY_FILE), pieces.tokens)
        pieces.table.save(os.path.join(dir_path, _TABLE_FILE))

    def load_assets(self, dir_path: str) -> None:
        self._set(
            read_vocabulary(os.path.join(dir_path, _VOCABULARY_FILE)),
            UnicodeTable.load(os.path.join(dir_path, _TABLE_FILE)),
        )

    def _special_tokens(self) -> tuple[str, ...]:
        return ("[PAD]", self.unknown_token, "[CLS]", "[SEP]", "[MASK]")

    def _set(self, tokens: list[str], table: UnicodeTable) -> None:
        check_vocabulary(tokens, self._special_tokens())
        self._pieces = WordPieces(
            tokens,
            table,
            self.unknown_token,
            self._special_tokens() if self.special_tokens_in_text else (),
            self.max_characters_per_word,
        )

    def _loaded(self) -> WordPieces:
        if self._pieces is None:
            raise ValueError(
                f"The tokenizer {self.name!r} has no vocabulary. A layer made from a config alone "
                "has none: pass vocabulary=, or load the model's .keras file, which holds it."
            )
        return self._pieces
