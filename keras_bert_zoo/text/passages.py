"""Many texts as tokens that lie end to end, with the characters that each token stands for."""

import dataclasses
from collections.abc import Sequence

import numpy as np

_CHUNK = 2048  # Texts that are tokenized together.


@dataclasses.dataclass(frozen=True)
class Passages:
    """Texts and their tokens.

    Attributes:
        texts: the texts.
        token_ids: int32 (T,), the tokens of the first text, then of the second, and so on.
        char_starts, char_ends: int32 (T,): `text[start:end]` is what a token stands for.
        splits: int64 (texts + 1,): where the tokens of each text start, and where the last end.
    """

    texts: Sequence[str]
    token_ids: np.ndarray
    char_starts: np.ndarray
    char_ends: np.ndarray
    splits: np.ndarray

    @classmethod
    def tokenized(cls, tokenizer, texts: Sequence[str]) -> "Passages":
        """Tokenizes texts.

        Args:
            tokenizer: has `tokenize_with_spans`, as `WordPieceTokenizer`.
            texts: the texts, at least one.
        """

        def columns(chunk):
            spans = tokenizer.tokenize_with_spans(chunk)
            fields = (spans.token_ids, spans.char_starts, spans.char_ends)
            return spans.token_ids.row_lengths().numpy(), *(f.values.numpy() for f in fields)

        (ids, starts, ends), splits = _in_chunks(columns, texts)
        return cls(texts, ids, starts, ends, splits)

    def tokens_at(self, numbers, starts, ends) -> tuple[np.ndarray, np.ndarray]:
        """The first and the last token that stand for some of the characters `start:end`.

        Args:
            numbers: int (k,), the text of each.
            starts, ends: int (k,), characters in that text.

        Returns:
            Two int64 arrays (k,) of numbers among the tokens of the text; -1 where no token
            stands for any of these characters.
        """
        numbers = np.asarray(numbers, np.int64)
        # Characters of all texts in one row, with one between texts, so that none ends in another.
        sizes = np.fromiter((len(text) + 1 for text in self.texts), np.int64, len(self.texts))
        base = np.cumsum(sizes) - sizes
        token_base = np.repeat(base, np.diff(self.splits))
        first = np.searchsorted(token_base + self.char_ends, base[numbers] + starts, side="right")
        last = np.searchsorted(token_base + self.char_starts, base[numbers] + ends, side="left") - 1
        found = first <= last
        return tuple(np.where(found, token - self.splits[numbers], -1) for token in (first, last))


def token_rows(tokenizer, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """The tokens of texts, end to end, int32 (T,), and their splits, int64 (texts + 1,)."""

    def columns(chunk):
        ids = tokenizer(chunk)
        return ids.row_lengths().numpy(), ids.values.numpy()

    (ids,), splits = _in_chunks(columns, texts)
    return ids, splits


def _in_chunks(columns, texts):
    parts = [columns(list(texts[n : n + _CHUNK])) for n in range(0, len(texts), _CHUNK)]
    lengths, *flat = (np.concatenate(part) for part in zip(*parts, strict=True))
    return flat, np.concatenate([[0], np.cumsum(lengths)])
