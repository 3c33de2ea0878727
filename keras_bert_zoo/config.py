"""The description of a transformer encoder, and the two files the world keeps it in."""

import contextlib
import dataclasses
import json
import numbers
import os
import pathlib

ACTIVATIONS = ("gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu", "tanh")

_LARGEST = 10**18  # Beyond any size, and within what every type of number holds.

# Settings of a Hugging Face config.json that would change what is computed, with the only values
# that mean the plain post-norm encoder. A file that asks for more is refused, not half obeyed.
_PLAIN = {
    "add_cross_attention": (False, None),
    "is_encoder_decoder": (False, None),
    "position_embedding_type": ("absolute", None),
    "pruned_heads": ({}, None),
    "model_type": ("bert", None),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class EncoderConfig:
    """Describes a transformer encoder of the BERT family.

    The fields carry the names of Google's `bert_config.json`, which Hugging Face's `config.json`
    kept. Defaults are those of the released BERT models (arXiv 1810.04805, section 3).

    Args:
        vocab_size: rows of the token table.
        hidden_size: width H of the token vectors.
        num_hidden_layers: transformer blocks N.
        num_attention_heads: heads A; must divide `hidden_size`.
        intermediate_size: inner width of the feed-forward part (4H in the released models).
        hidden_act: one of `ACTIVATIONS`. `"gelu"` is the exact, erf form; `"gelu_new"` and
            `"gelu_pytorch_tanh"` are the tanh approximation.
        hidden_dropout_prob: dropout rate after the embeddings and after each sub-layer.
        attention_probs_dropout_prob: dropout rate on the attention probabilities.
        max_position_embeddings: rows of the position table, so the longest input in tokens.
        type_vocab_size: rows of the segment table.
        initializer_range: standard deviation of the truncated normal initializer.
        layer_norm_eps: epsilon of every layer normalization.
        embedding_size: width E of the three tables, when it differs from `hidden_size` (ALBERT);
            `None` means `hidden_size`.
        pad_token_id: id of `[PAD]`.
        is_decoder: whether the encoder is causal, so that a position sees only itself and those
            before it, as in a left-to-right language model. The name is that of Hugging Face, whose
            decoder without cross-attention this is.

    Raises:
        ValueError: if a field is of the wrong type or out of range, or if `hidden_size` is not a
            multiple of `num_attention_heads`.
    """

    vocab_size: int
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    initializer_range: float = 0.02
    layer_norm_eps: float = 1e-12
    embedding_size: int | None = None
    pad_token_id: int = 0
    is_decoder: bool = False

    def __post_init__(self):
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value is None and field.default is None:
                continue
            if field.type is bool:
                if not isinstance(value, bool):
                    raise ValueError(f"`{field.name}` must be true or false. Received: {value!r}")
            elif field.type is not str:
                value = _number(field.name, value, whole=field.type is not float)
                object.__setattr__(self, field.name, value)
        for name in ("hidden_dropout_prob", "attention_probs_dropout_prob"):
            rate = getattr(self, name)
            if not 0 <= rate < 1:
                raise ValueError(f"`{name}` is a dropout rate in [0, 1). Received: {rate}")
        for name in ("initializer_range", "layer_norm_eps"):
            if not 0 < getattr(self, name) < 1:
                raise ValueError(
                    f"`{name}` must lie between 0 and 1. Received: {getattr(self, name)}"
                )
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(
                "`hidden_size` must be a multiple of `num_attention_heads`, since each head takes "
                f"an equal part. Received: hidden_size={self.hidden_size}, "
                f"num_attention_heads={self.num_attention_heads}"
            )
        if self.hidden_act not in ACTIVATIONS:
            raise ValueError(
                f"`hidden_act` must be one of {', '.join(ACTIVATIONS)}. "
                f"Received: {self.hidden_act!r}"
            )
        if self.pad_token_id >= self.vocab_size:
            raise ValueError(
                "`pad_token_id` must be an id of the vocabulary. Received: "
                f"pad_token_id={self.pad_token_id}, vocab_size={self.vocab_size}"
            )

    @classmethod
    def from_dict(cls, values: dict) -> "EncoderConfig":
        """Makes a config of the content of a `bert_config.json` or `config.json`.

        Keys that do not describe the encoder (labels, versions, dropout of a head) are passed
        over.

        Raises:
            ValueError: if a required key is missing, a value is nonsense, or the file describes
                another architecture than the plain BERT encoder.
        """
        if not isinstance(values, dict):
            raise ValueError(f"A config file holds one JSON object. Received: {values!r:.80}")
        for key, plain in _PLAIN.items():
            if key in values and values[key] not in plain:
                raise ValueError(
                    f"This is not the config of a plain BERT encoder: `{key}` is "
                    f"{values[key]!r}, and only {plain[0]!r} can be built."
                )
        known = {field.name for field in dataclasses.fields(cls)}
        required = known & {
            "vocab_size",
            "hidden_size",
            "num_hidden_layers",
            "num_attention_heads",
            "intermediate_size",
        }
        architectures = values.get("architectures")
        if "model_type" not in values and isinstance(architectures, list):
            others = [name for name in architectures if not str(name).startswith("Bert")]
            if others:
                raise ValueError(
                    "This is not the config of a BERT encoder: it has no `model_type`, and its "
                    f"`architectures` are {architectures!r:.200}"
                )
        missing = sorted(key for key in required if values.get(key) is None)
        if missing:
            raise ValueError(
                f"The config lacks {', '.join(f'`{key}`' for key in missing)}. "
                f"Received the keys: {', '.join(sorted(map(str, values))) or 'none'}"
            )
        given = {key: value for key, value in values.items() if key in known and value is not None}
        return cls(**given)

    @classmethod
    def from_file(cls, path: str | os.PathLike) -> "EncoderConfig":
        """Reads a config file, or the one in a folder (`config.json` or `bert_config.json`).

        Raises:
            ValueError: if there is no such file, it is not JSON, or `from_dict` refuses it; the
                message names the file.
        """
        path, values = read_config_values(path)
        try:
            return cls.from_dict(values)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error

    def to_dict(self) -> dict:
        """Returns the content of a `bert_config.json`: the fields, less those that are `None`."""
        values = dataclasses.asdict(self)
        return {key: value for key, value in values.items() if value is not None}

    def to_hugging_face(self) -> dict:
        """Returns the content of a Hugging Face `config.json`."""
        return self.to_dict() | {"model_type": "bert", "position_embedding_type": "absolute"}

    def save(self, path: str | os.PathLike) -> None:
        """Writes the config; a file named `bert_config.json` in Google's form, else Hugging Face's.

        Args:
            path: a file, or a folder, which gets a `config.json`.
        """
        path = pathlib.Path(path)
        if path.is_dir():
            path = path / "config.json"
        values = self.to_dict() if path.name == "bert_config.json" else self.to_hugging_face()
        path.write_text(json.dumps(values, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def read_config_values(path: str | os.PathLike) -> tuple[pathlib.Path, dict]:
    """Reads the JSON of a config file, or of the one in a folder.

    Returns:
        The file, `config.json` or `bert_config.json` in a folder, and its content.

    Raises:
        ValueError: if there is no such file, or it is not a JSON object.
    """
    path = pathlib.Path(path)
    if path.is_dir():
        found = [path / name for name in ("config.json", "bert_config.json")]
        found = [file for file in found if os.path.lexists(file)]
        if not found:
            there = ", ".join(sorted(child.name for child in path.iterdir())[:10])
            raise ValueError(
                f"No config.json or bert_config.json in the folder {path}, which a model's folder "
                f"has. There is: {there or 'nothing'}"
            )
        path = found[0]
    try:
        values = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ValueError(f"The config file {path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ValueError(f"The config file {path} is not JSON in UTF-8: {error}") from error
    if not isinstance(values, dict):
        raise ValueError(f"{path}: A config file holds one JSON object. Received: {values!r:.80}")
    return path, values


def _number(name, value, whole):
    """A number, of numpy too, as Python's own, which JSON can hold."""
    kind = numbers.Integral if whole else numbers.Real
    if isinstance(value, bool) or not isinstance(value, kind):
        raise ValueError(
            f"`{name}` must be {'a whole number' if whole else 'a number'}. Received: {value!r}"
        )
    with contextlib.suppress(OverflowError):
        value = int(value) if whole else float(value)
    if abs(value) > _LARGEST:
        raise ValueError(f"`{name}` must be at most {_LARGEST:.0e}. Received: {value!r:.40}")
    smallest = 0 if name in ("pad_token_id", "num_hidden_layers") else 1
    if whole and value < smallest:
        raise ValueError(f"`{name}` must be at least {smallest}. Received: {value!r}")
    return value
