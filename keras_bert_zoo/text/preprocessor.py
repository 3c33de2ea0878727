"""Strings to the inputs of an encoder: the tokenizer and the packing as one layer."""

import os

import keras
import tensorflow as tf

from keras_bert_zoo.text.layer import TextLayer, as_strings
from keras_bert_zoo.text.packing import Packer, check_sequence_length, packed_spec
from keras_bert_zoo.text.wordpiece import WordPieceTokenizer

_USUAL_LENGTH = 128


@keras.saving.register_keras_serializable(package="keras_bert_zoo")
class TextPreprocessor(TextLayer):
    """Tokenizes and packs one text, or a pair of texts, per example.

    It runs in a `tf.data` pipeline as well as inside a model, and carries its vocabulary into a
    saved or exported one.

    Args:
        tokenizer: the tokenizer, such as a `WordPieceTokenizer`.
        sequence_length: most tokens of an example, special tokens included.
        padding: `"max_length"` pads every example to `sequence_length`, `"longest"` to the longest
            one of the batch.

    Raises:
        ValueError: if `sequence_length` cannot hold the special tokens, or `padding` is unknown.
    """

    def __init__(self, tokenizer, sequence_length: int, padding: str = "max_length", **kwargs):
        super().__init__(**kwargs)
        Packer(sequence_length, 0, 0, padding=padding)  # Checks both.
        if not isinstance(tokenizer, keras.layers.Layer):
            raise ValueError(
                "tokenizer must be a tokenizer, such as WordPieceTokenizer(vocabulary), received "
                f"{tokenizer!r:.80}."
            )
        self.tokenizer = tokenizer
        self.sequence_length = int(sequence_length)
        self.padding = padding

    @classmethod
    def from_preset(
        cls,
        preset: str | os.PathLike,
        sequence_length: int | None = None,
        lowercase: bool | None = None,
        padding: str = "max_length",
        **kwargs,
    ) -> "TextPreprocessor":
        """Makes the preprocessor of a model's folder, with its `WordPieceTokenizer`.

        Args:
            preset, lowercase, **kwargs: as `WordPieceTokenizer.from_preset` takes them.
            sequence_length: most tokens of an example; by default 128, or what the model takes
                if that is less.
            padding: as for the constructor.

        Raises:
            ValueError: as `WordPieceTokenizer.from_preset`, or if the model takes no inputs of
                that length.
        """
        tokenizer, longest = WordPieceTokenizer.with_length_from_preset(preset, lowercase, **kwargs)
        if sequence_length is None:
            sequence_length = _USUAL_LENGTH if longest is None else min(_USUAL_LENGTH, longest)
        elif longest is not None and sequence_length > longest:
            raise ValueError(
                f"The model {os.fspath(preset)!r} takes at most {longest} tokens "
                f"(`model_max_length`), received sequence_length={sequence_length}."
            )
        return cls(tokenizer, sequence_length, padding)

    def convert_inputs(self, inputs):
        """Texts as a string tensor; pairs as a dict of two, `text_a` and `text_b`."""
        if isinstance(inputs, tuple):
            if len(inputs) != 2:
                raise ValueError(
                    f"A tuple must be a pair (text_a, text_b), received {len(inputs)} parts. "
                    "Pass a batch of single texts as a list."
                )
            inputs = dict(zip(("text_a", "text_b"), inputs, strict=True))
        if not isinstance(inputs, dict):
            return as_strings(inputs)
        if set(inputs) == {"text"}:
            return as_strings(inputs["text"], "text")
        if set(inputs) != {"text_a", "text_b"}:
            raise ValueError(
                "A dict of texts must have the key 'text', or 'text_a' and 'text_b', received "
                f"{sorted(inputs)}."
            )
        check_sequence_length(self.sequence_length, texts=2)
        pair = {name: as_strings(texts, name) for name, texts in inputs.items()}
        shapes = [tuple(pair[name].shape) for name in ("text_a", "text_b")]
        if len(shapes[0]) != len(shapes[1]) or (
            all(shapes) and None not in (*shapes[0], *shapes[1]) and shapes[0] != shapes[1]
        ):
            raise ValueError(
                f"text_a and text_b must have the same shape, received {shapes[0]} and {shapes[1]}."
            )
        return pair

    def call(self, texts):
        """Tokenizes and packs.

        Args:
            texts: strings (B,), or one; for pairs a tuple `(text_a, text_b)`, or a dict with the
                keys `text_a` and `text_b`; a dict with the key `text` is a single text.

        Returns:
            A dict of int32 tensors (B, L), or (L,) for one text: `token_ids`, `segment_ids`,
            `padding_mask`.
        """
        packer = Packer(
            self.sequence_length,
            self.tokenizer.cls_id,
            self.tokenizer.sep_id,
            self.tokenizer.pad_id,
            self.padding,
        )
        if not isinstance(texts, dict):
            return packer(self.tokenizer(texts))
        # One tokenization for both, so that the vocabulary is in the graph once.
        first, second = texts["text_a"], texts["text_b"]
        single = first.shape.rank == 0
        first, second = tf.reshape(first, [-1]), tf.reshape(second, [-1])
        tokens = self.tokenizer(tf.concat([first, second], 0))
        packed = packer(tokens[: tf.size(first)], tokens[tf.size(first) :])
        if single:
            packed = {name: tensor[0] for name, tensor in packed.items()}
        return packed

    def compute_output_spec(self, texts):
        shape = texts["text_a"].shape if isinstance(texts, dict) else texts.shape
        width = self.sequence_length if self.padding == "max_length" else None
        return packed_spec((*shape, width))

    def get_config(self) -> dict:
        return {
            **super().get_config(),
            "tokenizer": keras.saving.serialize_keras_object(self.tokenizer),
            "sequence_length": self.sequence_length,
            "padding": self.padding,
        }

    @classmethod
    def from_config(cls, config: dict) -> "TextPreprocessor":
        config = dict(config)
        config["tokenizer"] = keras.saving.deserialize_keras_object(config["tokenizer"])
        return cls(**config)
