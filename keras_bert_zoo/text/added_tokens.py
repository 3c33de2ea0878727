"""Tokens that were added to a vocabulary after it was learnt, in whichever file they are."""

import os
import pathlib
import re
from collections.abc import Sequence

from keras_bert_zoo.text.files import JsonObject
from keras_bert_zoo.text.tokenizer_config import CONFIG_FILE, TokenizerConfig, token_of
from keras_bert_zoo.text.tokenizer_json import TOKENIZER_FILE, TokenizerJson, check_id
from keras_bert_zoo.text.vocabulary import check_encodable

ADDED_FILE = "added_tokens.json"
_UNUSED = re.compile(r"\[unused\d+\]")
_MEND = "Take the files of one and the same model."


class AddedTokens:
    """The added tokens of a folder: of three files, by id.

    Raises:
        ValueError: if a file is malformed, or two give different tokens to an id.
    """

    def __init__(
        self, folder: str | os.PathLike, config: TokenizerConfig, model: TokenizerJson | None
    ):
        self._folder = pathlib.Path(folder)
        self._tokens: dict[int, tuple[str, str]] = {}  # The token, and the file that has it.
        self._named = config.named_tokens()
        if model is not None:
            for number, token in model.added.items():
                self._add(number, token, TOKENIZER_FILE)
        if os.path.lexists(path := self._folder / ADDED_FILE):
            added = JsonObject.read(path)
            for token in added:
                number = added.get(token, int)
                self._add(check_id(number, f"{path}: `{token:.80}`"), token, ADDED_FILE)
        decoder = config.config.object("added_tokens_decoder")
        for key in decoder if decoder is not None else ():
            if not re.fullmatch("[0-9]{1,18}", key):
                raise ValueError(
                    f"{config.config.path}: `added_tokens_decoder` has the key {key!r:.80}, which "
                    "must be the id of a token, in digits."
                )
            token = token_of(decoder, key)
            if token is None:
                raise decoder.wrong(key, "an object with the token as its `content`")
            self._add(int(key), token, CONFIG_FILE)

    def join(self, tokens: Sequence[str], file: str) -> list[str]:
        """A vocabulary with the added tokens behind it.

        Args:
            tokens: the vocabulary.
            file: the name of its file.

        Raises:
            ValueError: if an added token has an id that is another token's, or leaves a hole.
        """
        joined = list(tokens)
        ids = {token: number for number, token in enumerate(joined)}
        for number, (token, source) in sorted(self._tokens.items()):
            if number < len(joined) and joined[number] == token:
                continue
            problem = f"{self._folder}: {source} gives the id {number} to {token!r:.80}, but "
            if number < len(joined):
                raise ValueError(
                    f"{problem}in {file} it is that of {joined[number]!r:.80}. {_MEND}"
                )
            if token in ids:
                raise ValueError(f"{problem}in {file} that token has the id {ids[token]}. {_MEND}")
            if number > len(joined):
                raise ValueError(f"{problem}no file has a token for the id {len(joined)}. {_MEND}")
            check_encodable(token, f"{self._folder}: the added token {number}")
            joined.append(token)
            ids[token] = number
        return joined

    def unlike_text(self, special_tokens: Sequence[str]) -> list[str]:
        """The tokens that `transformers` finds in raw text, beside the special ones, in order."""
        tokens = [token for _, (token, _) in sorted(self._tokens.items())] + self._named
        return [
            token
            for token in dict.fromkeys(tokens)
            if token not in special_tokens and not _UNUSED.fullmatch(token)
        ]

    def _add(self, number: int, token: str, file: str) -> None:
        known, other = self._tokens.setdefault(number, (token, file))
        if known != token:
            raise ValueError(
                f"{self._folder}: {other} gives the id {number} to {known!r:.80}, and {file} to "
                f"{token!r:.80}. {_MEND}"
            )
