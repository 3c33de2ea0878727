"""WordPiece tokenization as BERT does it, in graph (Devlin et al. 2019, arXiv 1810.04805)."""

import os
from collections.abc import Mapping, Sequence, Set
from typing import NamedTuple

import keras
import tensorflow as tf

from keras_bert_zoo.hub import find_folder
from keras_bert_zoo.text.lookups import TokenLookups
from keras_bert_zoo.text.pieces import WordPieces
from keras_bert_zoo.text.splitting import rows_of
from keras_bert_zoo.text.tokenizer_files import read_tokenizer_files
from keras_bert_zoo.text.unicode_table import UnicodeTable, build_unicode_table
from keras_bert_zoo.text.vocabulary import (
    CONTINUATION,
    VOCABULARY_FILE,
    check_vocabulary,
    read_vocabulary,
    write_vocabulary,
)

_TABLE_FILE = "unicode_table.npz"


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
class WordPieceTokenizer(TokenLookups):
    """Turns texts into token ids by the rules of google-research/bert.

    The text is cleaned, split at white space, ideographs and punctuation, lower-cased and stripped
    of accents if `lowercase`, and each word is cut into the longest pieces that the vocabulary
    has, from the left; the second and later pieces of a word are those written `##x`. A word that
    cannot be cut is one unknown token. The characters' properties are those of the Python that
    first built the tokenizer; they and the vocabulary are saved with the layer.

    Args:
        vocabulary: path of a vocabulary file, or the tokens in the order of their ids. It must
            hold the five special tokens. Without one, the layer can be wired into a model, and
            gets it when the model's file is loaded.
        lowercase: whether the vocabulary is of an uncased model.
        max_characters_per_word: a word of more normalised characters is unknown.
        special_tokens_in_text: whether a special token written in the text, like `[MASK]`, is that
            token. By default it is text like any other.
        unknown_token: the token of words that cannot be cut.
        strip_accents: whether to decompose words (NFD) and drop combining marks; `None` means as
            `lowercase`.
        split_ideographs: whether each CJK ideograph is a word by itself (`tokenize_chinese_chars`
            of Hugging Face).
        cls_token, sep_token, pad_token, mask_token: the other special tokens.
        added_tokens: tokens of the vocabulary that are found wherever a text has them, letter for
            letter, before anything else is done to it; see `with_added_tokens`.

    Raises:
        ValueError: if the vocabulary lacks a special or an added token or has a token twice, or
            two special tokens are the same.
    """

    def __init__(
        self,
        vocabulary: str | os.PathLike | Sequence[str] | None = None,
        lowercase: bool = True,
        max_characters_per_word: int = 100,
        special_tokens_in_text: bool = False,
        unknown_token: str = "[UNK]",
        strip_accents: bool | None = None,
        split_ideographs: bool = True,
        cls_token: str = "[CLS]",
        sep_token: str = "[SEP]",
        pad_token: str = "[PAD]",
        mask_token: str = "[MASK]",
        added_tokens: Sequence[str] = (),
        **kwargs,
    ):
        super().__init__(pad_token, unknown_token, cls_token, sep_token, mask_token, **kwargs)
        if max_characters_per_word < 1:
            raise ValueError(
                f"max_characters_per_word must be at least 1, received {max_characters_per_word}."
            )
        self.lowercase = bool(lowercase)
        self.max_characters_per_word = int(max_characters_per_word)
        self.special_tokens_in_text = bool(special_tokens_in_text)
        self.strip_accents = None if strip_accents is None else bool(strip_accents)
        self.split_ideographs = bool(split_ideographs)
        self.added_tokens = _checked_added(added_tokens)
        self._pieces: WordPieces | None = None
        if vocabulary is not None:
            if isinstance(vocabulary, (str, os.PathLike)):
                vocabulary = read_vocabulary(vocabulary)
            if isinstance(vocabulary, (Mapping, Set)):
                raise ValueError(
                    "vocabulary must be a path, or the tokens in the order of their ids, received "
                    f"a {type(vocabulary).__name__}, whose order is not that: sort it by id."
                )
            table = build_unicode_table(self.lowercase, self.strip_accents, self.split_ideographs)
            self._set(list(vocabulary), table)

    @classmethod
    def from_preset(
        cls, preset: str | os.PathLike, lowercase: bool | None = None, **kwargs
    ) -> "WordPieceTokenizer":
        """Makes the tokenizer of a model's folder from its `vocab.txt` or `tokenizer.json`.

        Args:
            preset: a folder in Google's or Hugging Face's layout, or what else
                `keras_bert_zoo.hub.find_folder` takes.
            lowercase: whether the model is uncased; by default as the folder says, see
                `read_tokenizer_files`.
            **kwargs: as the constructor takes them, in place of the folder's settings.

        Raises:
            ValueError: if there is no such folder, or no tokenizer in it that can be read.

        Warns:
            UserWarning: if the folder contradicts `lowercase`, or itself.
        """
        return cls.with_length_from_preset(preset, lowercase, **kwargs)[0]

    @classmethod
    def with_length_from_preset(
        cls, preset: str | os.PathLike, lowercase: bool | None = None, **kwargs
    ) -> tuple["WordPieceTokenizer", int | None]:
        """As `from_preset`, with the longest input of the model in tokens, if the folder tells."""
        folder = find_folder(preset, load_weights=False)
        settings = read_tokenizer_files(folder, lowercase)
        if settings is None:
            others = ", ".join(sorted(os.listdir(folder))[:10]) or "nothing"
            raise ValueError(f"{folder} has no vocab.txt and no tokenizer.json. There is: {others}")
        try:
            tokenizer = cls(settings.vocabulary, **{**settings.arguments, **kwargs})
        except ValueError as error:
            raise ValueError(f"{folder}: {error}") from error
        return tokenizer, settings.model_max_length

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

    def with_added_tokens(self, tokens: Sequence[str]) -> "WordPieceTokenizer":
        """The same tokenizer with more tokens, such as `["[E1]", "[/E1]"]`, in `added_tokens`.

        Their ids follow those of the vocabulary, in the order given; a token that the vocabulary
        has keeps its id. The encoder's table needs rows for them: `encoder.resized(
        tokenizer.vocabulary_size)`.

        Raises:
            ValueError: if a token is empty or white space, or no vocabulary file could hold it.
        """
        added = tuple(dict.fromkeys((*self.added_tokens, *_checked_added(tokens))))
        config = {**self.get_config(), "name": None, "added_tokens": added}
        tokenizer = WordPieceTokenizer.from_config(config)
        known = self._loaded().ids
        new = [token for token in added if token not in known]
        tokenizer._set([*self.vocabulary, *new], self._loaded().table)
        return tokenizer

    def compute_output_spec(self, texts):
        shape = (*texts.shape, None)
        return keras.KerasTensor(shape, dtype="int32", ragged=len(shape) > 1)

    def get_config(self) -> dict:
        return {
            **super().get_config(),
            "lowercase": self.lowercase,
            "max_characters_per_word": self.max_characters_per_word,
            "special_tokens_in_text": self.special_tokens_in_text,
            "strip_accents": self.strip_accents,
            "split_ideographs": self.split_ideographs,
            "added_tokens": list(self.added_tokens),
        }

    def save_assets(self, dir_path: str) -> None:
        pieces = self._loaded()
        write_vocabulary(os.path.join(dir_path, VOCABULARY_FILE), pieces.tokens)
        pieces.table.save(os.path.join(dir_path, _TABLE_FILE))

    def load_assets(self, dir_path: str) -> None:
        self._set(
            read_vocabulary(os.path.join(dir_path, VOCABULARY_FILE)),
            UnicodeTable.load(os.path.join(dir_path, _TABLE_FILE)),
        )

    def _set(self, tokens: list[str], table: UnicodeTable) -> None:
        check_vocabulary(tokens, (*self.special_tokens, *self.added_tokens))
        literals = {*self.added_tokens}
        if self.special_tokens_in_text:
            literals |= {*self.special_tokens}
        self._pieces = WordPieces(
            tokens,
            table,
            self.unknown_token,
            # Of literals that begin alike, the longest is meant.
            tuple(sorted(literals, key=lambda token: (-len(token), token))),
            self.max_characters_per_word,
        )

    def _loaded(self) -> WordPieces:
        if self._pieces is None:
            raise ValueError(
                f"The tokenizer {self.name!r} has no vocabulary. A layer made from a config alone "
                "has none: pass vocabulary=, or load the model's .keras file, which holds it."
            )
        return self._pieces


def _checked_added(tokens: Sequence[str]) -> tuple[str, ...]:
    for token in [tokens] if isinstance(tokens, str) else tokens:
        if isinstance(tokens, str) or not isinstance(token, str) or not token.strip():
            raise ValueError(
                f"Added tokens are a list of texts that are more than white space. Received: "
                f"{tokens!r:.200}"
            )
    return tuple(tokens)
