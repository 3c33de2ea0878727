"""The tokenizer files of a model's folder, as Google and Hugging Face write them."""

import dataclasses
import itertools
import json
import os
import pathlib
import warnings

from keras_bert_zoo.text.added_tokens import ADDED_FILE, AddedTokens
from keras_bert_zoo.text.casing import Evidence, casing_of_name, decide_lowercase
from keras_bert_zoo.text.tokenizer_config import (
    CONFIG_FILE,
    DEFAULT,
    SPECIAL_FILE,
    SPECIAL_NAMES,
    SWITCH_NAMES,
    TokenizerConfig,
)
from keras_bert_zoo.text.tokenizer_json import (
    TOKENIZER_FILE,
    TokenizerJson,
    read_tokenizer_json,
    tokenizer_json,
)
from keras_bert_zoo.text.vocabulary import VOCABULARY_FILE, read_vocabulary, write_vocabulary

_LIMIT = 100  # Characters of a word; transformers' BertTokenizer takes no other limit.


@dataclasses.dataclass(frozen=True)
class TokenizerSettings:
    """What the tokenizer files of a folder say.

    Attributes:
        vocabulary: the tokens in the order of their ids.
        arguments: what `WordPieceTokenizer` takes beside the vocabulary, all but
            `special_tokens_in_text`, of which files say nothing; `added_tokens` only if there are.
        model_max_length: the longest input of the model in tokens, if there is a limit.
        sources: what said each argument, "vocabulary" and "model_max_length": a file's name, "the
            folder's name", "the vocabulary", "the caller", "BERT's default", or for a length "no
            file".
    """

    vocabulary: list[str]
    arguments: dict[str, object]
    model_max_length: int | None
    sources: dict[str, str]


def read_tokenizer_files(
    folder: str | os.PathLike, lowercase: bool | None = None
) -> TokenizerSettings | None:
    """Reads `vocab.txt`, `tokenizer.json` and the smaller files beside them.

    Where two files contradict each other on a setting, the one counts that `transformers` obeys.
    Whether texts are lower-cased is told by `tokenizer_config.json`, else by `tokenizer.json`, else
    by the folder's name, such as "uncased_L-2_H-128_A-2", else by the vocabulary.

    Args:
        folder: the folder.
        lowercase: the caller's wish, which comes before all of them.

    Returns:
        The settings, or `None` if the folder has no such file.

    Raises:
        ValueError: if a file is malformed, two give different tokens to an id, there is no
            vocabulary, or the tokenizer is not of BERT's kind.

    Warns:
        UserWarning: if those who tell of lower-casing or of another setting contradict each other,
            or a file asks for what is not done here.
    """
    folder = pathlib.Path(folder)
    names = (VOCABULARY_FILE, TOKENIZER_FILE, CONFIG_FILE, SPECIAL_FILE, ADDED_FILE)
    # A link that leads nowhere is there too: better its error than no tokenizer.
    there = [name for name in names if os.path.lexists(folder / name)]
    if not there:
        return None
    config = TokenizerConfig(folder)
    if not {VOCABULARY_FILE, TOKENIZER_FILE} & {*there}:
        raise ValueError(
            f"{folder} has {', '.join(there)}, but neither {VOCABULARY_FILE} nor {TOKENIZER_FILE}: "
            "the WordPiece vocabulary is missing. Put the original model's file there."
        )
    model = read_tokenizer_json(folder / TOKENIZER_FILE) if TOKENIZER_FILE in there else None
    added = AddedTokens(folder, config, model)
    said: dict[str, tuple] = {"vocabulary": _vocabulary(folder, model, added)}
    said["model_max_length"] = config.model_max_length()
    limit = model and model.max_characters
    said["max_characters_per_word"] = (limit, TOKENIZER_FILE) if limit else (_LIMIT, DEFAULT)
    special = config.special_tokens(model)

    switches = config.switches(model)
    voices = [
        Evidence(value, file, f"`{key}` is {_json(value)}")
        for value, file, key in switches.pop("lowercase")
    ]
    answer, who, contradiction = decide_lowercase(
        lowercase, voices, casing_of_name(folder), said["vocabulary"][0]
    )
    said["lowercase"] = answer, who
    unlike = added.unlike_text([token for token, _ in special.values()])
    literal = [token for token in unlike if model and token in model.literal]
    if literal:
        said["added_tokens"] = literal, TOKENIZER_FILE
    lost = [token for token in unlike if token not in literal]
    told = [_not_done(config, model), _not_found(lost), contradiction]
    for name, values in switches.items():
        usual = None if name == "strip_accents" else True
        said[name] = values[0][:2] if values else (usual, DEFAULT)
        told.append(_disagreement(values, answer))
    for text in filter(None, told):
        warnings.warn(f"{folder}: {text}", stacklevel=2)

    said |= special
    sources = {name: source for name, (_, source) in said.items()}
    values = {name: value for name, (value, _) in said.items()}
    vocabulary, length = values.pop("vocabulary"), values.pop("model_max_length")
    return TokenizerSettings(vocabulary, values, length, sources)


def write_tokenizer_files(
    folder: str | os.PathLike, tokenizer, model_max_length: int | None
) -> list[str]:
    """Writes the files that `read_tokenizer_files` and `transformers` read.

    Args:
        folder: an existing folder.
        tokenizer: a `WordPieceTokenizer`.
        model_max_length: the longest input of the model in tokens, `None` for any.

    Returns:
        The names of the files.

    Raises:
        ValueError: if `model_max_length` is below 1, or the vocabulary cannot be written.
    """
    if model_max_length is not None and model_max_length < 1:
        raise ValueError(f"model_max_length must be at least 1, received {model_max_length}.")
    folder = pathlib.Path(folder)
    special = {key: getattr(tokenizer, name) for name, key in SPECIAL_NAMES.items()}
    config = {
        **special,
        **{key: getattr(tokenizer, name) for name, key in SWITCH_NAMES.items()},
        # Only the second class takes another limit, and it has to be told its inputs.
        "tokenizer_class": "BertTokenizer"
        if tokenizer.max_characters_per_word == _LIMIT
        else "PreTrainedTokenizerFast",
        "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
    }
    if model_max_length is not None:
        config["model_max_length"] = int(model_max_length)
    write_vocabulary(folder / VOCABULARY_FILE, tokenizer.vocabulary)
    written = {
        TOKENIZER_FILE: tokenizer_json(tokenizer),
        CONFIG_FILE: config,
        SPECIAL_FILE: special,
    }
    for name, values in written.items():
        text = json.dumps(values, ensure_ascii=False, indent=2) + "\n"
        (folder / name).write_bytes(text.encode("utf-8"))
    return [VOCABULARY_FILE, *written]


def _vocabulary(folder, model, added) -> tuple[list[str], str]:
    """The tokens and the file that has them; both must agree where there are two."""
    lists = {} if model is None else {TOKENIZER_FILE: model.tokens}
    if os.path.lexists(folder / VOCABULARY_FILE):
        lists = {VOCABULARY_FILE: read_vocabulary(folder / VOCABULARY_FILE), **lists}
    _check_same(folder, lists, zip)
    lists = {file: added.join(tokens, file) for file, tokens in lists.items()}
    _check_same(folder, lists, itertools.zip_longest)
    return next((tokens, file) for file, tokens in lists.items())


def _check_same(folder, lists, pairs) -> None:
    for number, tokens in enumerate(pairs(*lists.values()) if len(lists) == 2 else ()):
        if tokens[0] != tokens[1]:
            first, second = (
                f"{file} {'has none' if token is None else f'{token!r:.80}'}"
                for file, token in zip(lists, tokens, strict=True)
            )
            raise ValueError(
                f"{folder}: the token {number} differs: {first}, {second}. Take both files of one "
                "and the same model, or remove the wrong one."
            )


def _not_done(config: TokenizerConfig, model: TokenizerJson | None) -> str | None:
    parts = [f"{TOKENIZER_FILE} {what}" for what in (model.not_done if model else ())]
    if config.never_split:
        parts.append(
            f"{CONFIG_FILE} leaves words whole (`never_split`: {_some(config.never_split)})"
        )
    if parts:
        return f"{' and '.join(parts)}, which is not done here: some texts get other ids."
    return None


def _not_found(tokens: list[str]) -> str | None:
    if not tokens:
        return None
    return (
        "there are added tokens that transformers finds wherever a text has them, and that are "
        f"text like any other here: {_some(tokens)}. Such texts get other ids."
    )


def _disagreement(values: list[tuple], lowercase: bool) -> str | None:
    """What to say if two files contradict each other on a switch; null means as lower-casing."""
    if len({lowercase if value is None else value for value, *_ in values}) < 2:
        return None
    (value, file, key), (other_value, other, other_key) = values
    return (
        f"{file} is obeyed, where `{key}` is {_json(value)}, though in {other} "
        f"`{other_key}` is {_json(other_value)}: texts with such characters may get other ids."
    )


def _json(value: bool | None) -> str:
    return json.dumps(value)


def _some(values: list) -> str:
    more = f" and {len(values) - 5} more" if len(values) > 5 else ""
    return ", ".join(f"{value!r:.40}" for value in values[:5]) + more
