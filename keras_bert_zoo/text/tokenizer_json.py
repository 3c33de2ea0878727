"""The file `tokenizer.json` of Hugging Face's `tokenizers`, as far as it describes BERT's rules."""

import dataclasses
import os

from keras_bert_zoo.text.files import JsonObject
from keras_bert_zoo.text.vocabulary import CONTINUATION, check_vocabulary

TOKENIZER_FILE = "tokenizer.json"
# Our names of the switches, and the BertNormalizer's.
NORMALIZER_NAMES = {
    "lowercase": "lowercase",
    "strip_accents": "strip_accents",
    "split_ideographs": "handle_chinese_chars",
}
# In which an added token may be found otherwise than letter for letter.
_WAYS = ("single_word", "lstrip", "rstrip", "normalized")
_UNCLEANED = "leaves control characters in the text"


@dataclasses.dataclass(frozen=True)
class TokenizerJson:
    """What a `tokenizer.json` says; `None` where it says nothing.

    Attributes:
        tokens: the model's vocabulary in the order of its ids.
        added: tokens that were added to it, by id.
        literal: those of them that a text is searched for before anything is done to it.
        unknown_token, max_characters: of the model.
        switches: of the normalizer, by our names, as far as it has them.
        not_done: what it asks for and this package does not do.
    """

    tokens: list[str]
    added: dict[int, str]
    literal: frozenset[str]
    unknown_token: str | None
    max_characters: int | None
    switches: dict[str, bool | None]
    not_done: list[str]


def read_tokenizer_json(path: str | os.PathLike) -> TokenizerJson:
    """Reads a `tokenizer.json`.

    Raises:
        ValueError: if it is malformed, or not of a WordPiece tokenizer with BERT's rules.
    """
    whole = JsonObject.read(path)
    model = whole.object("model")
    if model is None:
        raise whole.wrong("model", "an object, as in a tokenizer.json of the library tokenizers")
    kind = model.get("type", str)
    # The library did not always write the type.
    if kind != "WordPiece" and not (kind is None and "continuing_subword_prefix" in model):
        raise model.wrong("type", '"WordPiece", the only model that can be read here')
    if model.get("continuing_subword_prefix", str) not in (None, CONTINUATION):
        raise model.wrong("continuing_subword_prefix", f"{CONTINUATION!r}")
    longest = model.get("max_input_chars_per_word", int)
    if longest is not None and longest < 1:
        raise model.wrong("max_input_chars_per_word", "at least 1")
    if not (vocabulary := model.get("vocab", dict)):
        raise model.wrong("vocab", "an object that gives each token its id")
    tokens = _tokens_by_id(vocabulary, f"{path}: `model.vocab`")
    _check_splitting(whole)
    switches, not_done = _normalizer(whole)
    return TokenizerJson(
        tokens=tokens,
        added=_added(whole),
        literal=_literal(whole),
        unknown_token=model.get("unk_token", str),
        max_characters=longest,
        switches=switches,
        not_done=not_done,
    )


def _tokens_by_id(ids: dict, where: str) -> list[str]:
    """Turns an object of tokens and ids into the tokens in the order of their ids.

    Raises:
        ValueError: if the ids are not the whole numbers from 0 on, each once.
    """
    tokens: list[str | None] = [None] * len(ids)
    for token, number in ids.items():
        check_id(number, f"{where} of {token!r:.80}")
        # One that is too large leaves a hole below, which is told.
        if number < len(tokens):
            if tokens[number] is not None:
                raise ValueError(
                    f"{where} gives the id {number} to {tokens[number]!r:.80} and to "
                    f"{token!r:.80}. Each token needs an id of its own."
                )
            tokens[number] = token
    if None in tokens:
        raise ValueError(
            f"{where} has {len(tokens):,} tokens, but none has the id {tokens.index(None)}; the "
            f"largest id is {max(ids.values())}. Ids must be the whole numbers from 0 on."
        )
    try:
        check_vocabulary(tokens, required=())
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error
    return tokens


def tokenizer_json(tokenizer) -> dict:
    """The content of a `tokenizer.json` for a `WordPieceTokenizer`."""
    ends = [
        {"SpecialToken": {"id": tokenizer.cls_token, "type_id": 0}},
        {"Sequence": {"id": "A", "type_id": 0}},
        {"SpecialToken": {"id": tokenizer.sep_token, "type_id": 0}},
    ]
    second = [
        {"Sequence": {"id": "B", "type_id": 1}},
        {"SpecialToken": {"id": tokenizer.sep_token, "type_id": 1}},
    ]
    special = tokenizer.special_tokens
    found = {*special, *tokenizer.added_tokens}
    by_id = sorted((tokenizer.token_to_id(token), token) for token in found)
    plain = dict.fromkeys(_WAYS, False)
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": number, "content": token, **plain, "special": token in special}
            for number, token in by_id
        ],
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            **{key: getattr(tokenizer, ours) for ours, key in NORMALIZER_NAMES.items()},
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": ends,
            "pair": ends + second,
            "special_tokens": {
                token: {"id": token, "ids": [tokenizer.token_to_id(token)], "tokens": [token]}
                for token in (tokenizer.cls_token, tokenizer.sep_token)
            },
        },
        "decoder": {"type": "WordPiece", "prefix": CONTINUATION, "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": tokenizer.unknown_token,
            "continuing_subword_prefix": CONTINUATION,
            "max_input_chars_per_word": tokenizer.max_characters_per_word,
            "vocab": {token: number for number, token in enumerate(tokenizer.vocabulary)},
        },
    }


def check_id(number, where: str) -> int:
    """Returns an id, or raises a ValueError if it is no whole number from 0 on."""
    if type(number) is not int or number < 0:
        raise ValueError(
            f"{where} must be a whole number from 0 on, received {type(number).__name__} "
            f"{number!r:.80}."
        )
    return number


def _added(whole: JsonObject) -> dict[int, str]:
    added: dict[int, str] = {}
    for entry in whole.objects("added_tokens"):
        token, number = entry.get("content", str), entry.get("id", int)
        if token is None:
            raise entry.wrong("content", "the token")
        if number is None:
            raise entry.wrong("id", "the id of the token")
        check_id(number, f"{whole.path}: the added token {token!r:.80}")
        if added.setdefault(number, token) != token:
            raise entry.wrong("id", f"another id than that of {added[number]!r:.80}")
    return added


def _literal(whole: JsonObject) -> frozenset[str]:
    return frozenset(
        entry.get("content", str)
        for entry in whole.objects("added_tokens")
        if all(entry.get(way, bool) is False for way in _WAYS)
    )


def _check_splitting(whole: JsonObject) -> None:
    for kind in _kinds(whole, "pre_tokenizer", "pretokenizers"):
        if kind != "BertPreTokenizer":
            raise ValueError(
                f"{whole.path}: `pre_tokenizer` is {kind}, and words are split as by "
                "BertPreTokenizer here, at white space and punctuation."
            )


def _normalizer(whole: JsonObject) -> tuple[dict, list[str]]:
    """The switches of the BertNormalizer, and what else is asked for."""
    if "normalizer" not in whole:
        return {}, []
    if whole.object("normalizer") is None:  # Nothing is normalised.
        return dict.fromkeys(NORMALIZER_NAMES, False), [_UNCLEANED]
    steps = _steps(whole, "normalizer", "normalizers")
    kinds = [step.get("type", str) for step in steps]
    if kinds.count("BertNormalizer") != 1:
        raise ValueError(
            f"{whole.path}: `normalizer` is {', '.join(map(str, kinds)) or 'empty'}, and only the "
            "rules of BertNormalizer can be followed here."
        )
    bert = steps[kinds.index("BertNormalizer")]
    switches = {ours: bert.get(key, bool) for ours, key in NORMALIZER_NAMES.items() if key in bert}
    # For accents null is a setting too: as for lower-casing.
    switches = {
        ours: value
        for ours, value in switches.items()
        if value is not None or ours == "strip_accents"
    }
    not_done = [f"normalises by {kind}" for kind in kinds if kind != "BertNormalizer"]
    if bert.get("clean_text", bool) is False:
        not_done.append(_UNCLEANED)
    return switches, not_done


def _kinds(whole: JsonObject, key: str, parts: str) -> list[str]:
    return [step.get("type", str) for step in _steps(whole, key, parts)]


def _steps(whole: JsonObject, key: str, parts: str) -> list[JsonObject]:
    """A step, or those of a sequence of steps, which may hold sequences."""
    waiting = [whole.object(key)]
    steps = []
    while waiting:
        step = waiting.pop(0)
        if step is not None and step.get("type", str) == "Sequence":
            waiting = step.objects(parts) + waiting
        elif step is not None:
            steps.append(step)
    return steps
