"""What every tokenizer knows of its vocabulary: tokens, ids, and the five special ones."""

import abc

import numpy as np

from keras_bert_zoo.text.layer import TextLayer
from keras_bert_zoo.text.vocabulary import CONTINUATION


class TokenLookups(TextLayer):
    """A layer with a vocabulary. A subclass gives `_loaded`, which has `tokens`, `ids`, `table`.

    Args:
        pad_token, unknown_token, cls_token, sep_token, mask_token: the special tokens.

    Raises:
        ValueError: if one is no text, or two are the same.
    """

    def __init__(
        self,
        pad_token: str,
        unknown_token: str,
        cls_token: str,
        sep_token: str,
        mask_token: str,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.pad_token = pad_token
        self.unknown_token = unknown_token
        self.cls_token = cls_token
        self.sep_token = sep_token
        self.mask_token = mask_token
        names = self.special_tokens
        if not all(isinstance(token, str) and token for token in names) or len({*names}) < 5:
            raise ValueError(
                "pad_token, unknown_token, cls_token, sep_token and mask_token must be five "
                f"different tokens, received {', '.join(f'{token!r:.80}' for token in names)}."
            )

    @property
    def special_tokens(self) -> tuple[str, ...]:
        """The tokens of padding, unknown words, start, end and masks."""
        return (
            self.pad_token,
            self.unknown_token,
            self.cls_token,
            self.sep_token,
            self.mask_token,
        )

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
        return self.token_to_id(self.pad_token)

    @property
    def unk_id(self) -> int:
        return self.token_to_id(self.unknown_token)

    @property
    def cls_id(self) -> int:
        return self.token_to_id(self.cls_token)

    @property
    def sep_id(self) -> int:
        return self.token_to_id(self.sep_token)

    @property
    def mask_id(self) -> int:
        return self.token_to_id(self.mask_token)

    @property
    def special_ids(self) -> tuple[int, ...]:
        """The ids of the five special tokens, in ascending order."""
        return tuple(sorted(self.token_to_id(token) for token in self.special_tokens))

    def get_config(self) -> dict:
        return {
            **super().get_config(),
            "pad_token": self.pad_token,
            "unknown_token": self.unknown_token,
            "cls_token": self.cls_token,
            "sep_token": self.sep_token,
            "mask_token": self.mask_token,
        }

    @abc.abstractmethod
    def _loaded(self):
        """What holds the tokens, or a ValueError that says how to get one."""
