"""Vocabulary files: reading, checking, writing and learning them."""

import collections
import itertools
import os
import pathlib
from collections.abc import Iterable, Iterator, Sequence

import tensorflow as tf

from keras_bert_zoo.text.files import BYTE_ORDER_MARK, read_text_file
from keras_bert_zoo.text.layer import check_encodable
from keras_bert_zoo.text.splitting import WordSplitter
from keras_bert_zoo.text.unicode_table import build_unicode_table

VOCABULARY_FILE = "vocab.txt"
SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
CONTINUATION = "##"  # What a token that continues a word starts with.
_TEXTS_A_BATCH = 4096
_WORDS_A_LINE = 1000


def read_vocabulary(path: str | os.PathLike) -> list[str]:
    """Reads a vocabulary file: one token a line, UTF-8, the line's number from 0 is the id.

    Only LF and CR LF end a line, so a token may be U+2028 or U+0085. A byte order mark is no part
    of the first token. Empty lines at the end of the file are no tokens, one in the middle is.

    Raises:
        ValueError: if the file is not UTF-8, is empty, too large, or has a token twice.
    """
    text = read_text_file(path, "A vocabulary has one token a line.")
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    if not lines:
        raise ValueError(f"{path} holds no tokens. A vocabulary has one token a line.")
    first_line: dict[str, int] = {}
    for number, token in enumerate(lines, 1):
        if token in first_line:
            raise ValueError(
                f"{path} has the token {token!r} twice, in lines {first_line[token]} and {number}. "
                "A token's id is its line, so one of them must go."
            )
        first_line[token] = number
    return lines


def write_vocabulary(path: str | os.PathLike, tokens: Sequence[str]) -> None:
    """Writes a vocabulary file that `read_vocabulary` reads back as the same tokens.

    Raises:
        ValueError: if a token would not survive, see `check_vocabulary`.
    """
    check_vocabulary(tokens, required=())
    pathlib.Path(path).write_bytes("".join(f"{token}\n" for token in tokens).encode("utf-8"))


def check_vocabulary(tokens: Sequence[str], required: Sequence[str] = SPECIAL_TOKENS) -> None:
    """Checks that tokens can serve as a vocabulary.

    Args:
        tokens: the tokens, in the order of their ids.
        required: the tokens that must be among them.

    Raises:
        ValueError: if a required token is missing, a token is there twice or is no string, or a
            vocabulary file could not hold it (it has a line feed or half a surrogate pair, ends in
            a carriage return, is an empty string at the end, or starts the file with a byte order
            mark).
    """
    index: dict[str, int] = {}
    for number, token in enumerate(tokens):
        if not isinstance(token, str):
            raise ValueError(f"Token {number} is no str: {type(token).__name__} {token!r:.100}.")
        if token in index:
            raise ValueError(
                f"The token {token!r} is there twice, with ids {index[token]} and {number}."
            )
        index[token] = number
        check_encodable(token, f"Token {number}")
        if "\n" in token or token.endswith("\r"):
            raise ValueError(f"Token {number}, {token!r}, has a line end in it.")
    missing = [token for token in required if token not in index]
    if missing:
        raise ValueError(
            f"The vocabulary of {len(index)} tokens lacks {', '.join(missing)}. "
            f"It must hold {', '.join(required)}; other names are given as cls_token=, mask_token= "
            "and so on."
        )
    if not index:
        raise ValueError("The vocabulary is empty.")
    if not tokens[-1] or tokens[0].startswith(BYTE_ORDER_MARK):
        raise ValueError(
            f"A vocabulary file can neither start with {BYTE_ORDER_MARK!r} nor end with an empty "
            f"token; the first token is {tokens[0]!r}, the last {tokens[-1]!r}."
        )


def learn_vocabulary(
    texts: Iterable[str],
    size: int,
    lowercase: bool = True,
    min_frequency: int = 2,
    max_alphabet: int = 1000,
    progress: bool = False,
) -> list[str]:
    """Learns a WordPiece vocabulary from texts.

    The texts are cleaned and split into words as `WordPieceTokenizer` does; the pieces are the
    pairs that the trainer of Hugging Face's `tokenizers` merges, most frequent first. The same
    texts give the same vocabulary, in whatever order they come.

    Args:
        texts: any number of texts, read once.
        size: how many tokens to learn, the five special tokens included.
        lowercase: whether the vocabulary is for an uncased tokenizer.
        min_frequency: how often a pair must occur to become a token.
        max_alphabet: how many different characters to keep, the most frequent ones; a word with
            another character will be unknown.
        progress: whether to show the trainer's progress bar.

    Returns:
        `size` tokens: `[PAD] [UNK] [CLS] [SEP] [MASK]`, the characters, then the merged pieces.

    Raises:
        ImportError: if the package `tokenizers` is not installed.
        ValueError: if the texts give fewer tokens, or their characters alone are more.
    """
    try:
        import tokenizers
    except ImportError as error:
        raise ImportError(
            "Learning a vocabulary takes the package tokenizers: "
            "pip install 'keras-bert-zoo[examples]'."
        ) from error
    words = _count_words(texts, lowercase)
    characters = collections.Counter()
    for word, count in words.items():
        for character in word:
            characters[character] += count
    ranked = sorted(characters, key=lambda character: (-characters[character], character))
    kept = set(ranked[:max_alphabet])
    later = sorted({character for word in words for character in word[1:]} & kept)
    # Given in advance, because the trainer would number them in the order of a random hash, and
    # breaks ties between pairs by those numbers.
    given = [*SPECIAL_TOKENS, *sorted(kept), *(CONTINUATION + character for character in later)]
    if size < len(given):
        raise ValueError(
            f"size={size} is too small: the special tokens and the {len(kept)} characters of the "
            f"texts take {len(given)} tokens. Raise size or lower max_alphabet={max_alphabet}."
        )
    model = tokenizers.Tokenizer(tokenizers.models.WordPiece(unk_token="[UNK]"))
    model.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    trainer = tokenizers.trainers.WordPieceTrainer(
        vocab_size=size,
        min_frequency=min_frequency,
        special_tokens=given,
        limit_alphabet=len(kept),
        show_progress=progress,
        continuing_subword_prefix=CONTINUATION,
    )
    model.train_from_iterator(_lines(words), trainer)
    ids = model.get_vocab()
    if len(ids) < size:
        raise ValueError(
            f"The texts give a vocabulary of {len(ids)} tokens, {size} were asked for. Ask for at "
            f"most {len(ids)}, give more text, or lower min_frequency={min_frequency}."
        )
    return sorted(ids, key=ids.get)


def _count_words(texts: Iterable[str], lowercase: bool) -> dict[str, int]:
    """Normalised words and how often they occur, in alphabetical order."""
    counter = collections.Counter()
    texts = iter(texts)
    with tf.device("CPU:0"):
        splitter = WordSplitter(build_unicode_table(lowercase))
        while batch := list(itertools.islice(texts, _TEXTS_A_BATCH)):
            words, _, counts = tf.unique_with_counts(splitter.split(tf.constant(batch)).strings)
            for word, count in zip(words.numpy(), counts.numpy(), strict=True):
                counter[word] += int(count)
    return {word.decode("utf-8"): counter[word] for word in sorted(counter)}


def _lines(words: dict[str, int]) -> Iterator[str]:
    """Text that has every word as often as it was counted."""
    every = itertools.chain.from_iterable(itertools.repeat(*item) for item in words.items())
    while line := list(itertools.islice(every, _WORDS_A_LINE)):
        yield " ".join(line)
