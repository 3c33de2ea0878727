"""What `tokenizer_config.json` and `special_tokens_map.json` of a Hugging Face folder say."""

import math
import os
import pathlib
import re

from keras_bert_zoo.text.files import JsonObject
from keras_bert_zoo.text.tokenizer_json import NORMALIZER_NAMES, TOKENIZER_FILE, TokenizerJson
from keras_bert_zoo.text.vocabulary import SPECIAL_TOKENS

CONFIG_FILE, SPECIAL_FILE = "tokenizer_config.json", "special_tokens_map.json"
DEFAULT = "BERT's default"

# Our names and theirs, of the special tokens in the order of SPECIAL_TOKENS, and of the switches.
SPECIAL_NAMES = {
    "pad_token": "pad_token",
    "unknown_token": "unk_token",
    "cls_token": "cls_token",
    "sep_token": "sep_token",
    "mask_token": "mask_token",
}
SWITCH_NAMES = {
    "lowercase": "do_lower_case",
    "strip_accents": "strip_accents",
    "split_ideographs": "tokenize_chinese_chars",
}
# transformers follows tokenizer.json with these classes, tokenizer_config.json with BERT's own.
_GENERIC = ("PreTrainedTokenizerFast", "PreTrainedTokenizer", "TokenizersBackend")
# Beginnings of classes that cut no WordPieces, or find words in another way than BERT.
_OTHER_KINDS = re.compile(
    "Albert|Bart|BertGeneration|BertJapanese|Bertweet|BigBird|BioGpt|Blenderbot|Bloom|ByT5|CLIP"
    "|CTRL|Camembert|Canine|CodeGen|CodeLlama|Cohere|Cpm|Deberta|Esm|FNet|FSMT|Flaubert|GPT|Gemma"
    "|Herbert|LED|LayoutLMv3|LayoutXLM|Llama|Longformer|Luke|M2M100|MBart|MLuke|MT5|Marian|Mvp"
    "|Nllb|OpenAI|Pegasus|Perceiver|Phobert|Qwen|Reformer|RemBert|RoFormer|Roberta|T5|Udop"
    "|Whisper|XGLM|XLM|XLNet"
)
_NO_LENGTH = 1e20  # transformers writes 10**30 for a model that takes any length.


class TokenizerConfig:
    """The two files of a folder; a file that is missing says nothing.

    Raises:
        ValueError: if a file is malformed, or the tokenizer is not of BERT's kind.
    """

    def __init__(self, folder: str | os.PathLike):
        folder = pathlib.Path(folder)
        self.config, self.special = (
            JsonObject.read(path) if os.path.lexists(path) else JsonObject(path, {})
            for path in (folder / CONFIG_FILE, folder / SPECIAL_FILE)
        )
        kind = self.config.get("tokenizer_class", str) or ""
        if _OTHER_KINDS.match(kind):
            raise ValueError(
                f"{self.config.path}: `tokenizer_class` is {kind!r}, which does not cut words into "
                "WordPieces as BERT does. Only tokenizers of BERT's kind can be read."
            )
        self._generic = kind in _GENERIC
        if self.config.get("do_basic_tokenize", bool) is False:
            raise self.config.wrong(
                "do_basic_tokenize", "true: texts are always cleaned and split into words here"
            )
        self.never_split = self.config.get("never_split", list) or []

    def special_tokens(self, model: TokenizerJson | None) -> dict[str, tuple[str, str]]:
        """The special tokens, by our names, each with the file that said it."""
        # transformers passes over the map where the config has all added tokens.
        files = [self.special, self.config][("added_tokens_decoder" in self.config) :]
        found = {}
        for (ours, theirs), usual in zip(SPECIAL_NAMES.items(), SPECIAL_TOKENS, strict=True):
            said = [(token_of(file, theirs), file.path.name) for file in files]
            if model is not None and ours == "unknown_token":
                said.insert(0 if self._generic else 2, (model.unknown_token, TOKENIZER_FILE))
            said.append((usual, DEFAULT))
            found[ours] = next((token, file) for token, file in said if token is not None)
        return found

    def switches(self, model: TokenizerJson | None) -> dict[str, list[tuple]]:
        """What the files say of each switch: (value, file, key), most important first."""
        found = {}
        for ours, key in SWITCH_NAMES.items():
            said = []
            value = self.config.get(key, bool)
            # For accents null is a setting too: as for lower-casing.
            if value is not None or (key in self.config and ours == "strip_accents"):
                said.append((value, CONFIG_FILE, key))
            if model is not None and ours in model.switches:
                said.append((model.switches[ours], TOKENIZER_FILE, NORMALIZER_NAMES[ours]))
            found[ours] = said[::-1] if self._generic else said
        return found

    def model_max_length(self) -> tuple[int | None, str]:
        """The longest input in tokens, `None` if there is no limit, and who said so."""
        for key in ("model_max_length", "max_len"):  # The latter is the name of the first years.
            length = self.config.get(key, int, float)
            if length is None:
                continue
            if length >= _NO_LENGTH:
                return None, CONFIG_FILE
            if not length >= 1 or math.floor(length) != length:
                raise self.config.wrong(key, "a whole number from 1 on")
            return int(length), CONFIG_FILE
        return None, "no file"

    def named_tokens(self) -> list[str]:
        """The tokens beyond BERT's five that the files call special."""
        found = []
        for file in (self.config, self.special):
            for key in ("additional_special_tokens", "extra_special_tokens"):
                value = file.get(key, list, dict) or []
                for token in value.values() if isinstance(value, dict) else value:
                    token = token.get("content") if isinstance(token, dict) else token
                    if not isinstance(token, str):
                        raise file.wrong(key, "a list of tokens")
                    found.append(token)
        return found


def token_of(file: JsonObject, key: str) -> str | None:
    """A token, which is written as a text or as an object with its `content`."""
    value = file.get(key, str, dict)
    if isinstance(value, dict):
        value = file.object(key).get("content", str)
        if value is None:
            raise file.wrong(key, "a text, or an object whose `content` is one")
    return value
