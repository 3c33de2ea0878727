"""What every task shares: its parts, saving and export."""

import os
import pathlib

import keras
import tensorflow as tf

from keras_bert_zoo.encoders.transformer import freeze_layers, frozen_layers
from keras_bert_zoo.serving.export import export_saved_model
from keras_bert_zoo.tasks.presets import PresetModel
from keras_bert_zoo.text.preprocessor import TextPreprocessor


class Task(PresetModel):
    """A model from an encoder's inputs to a head's outputs, with the preprocessor that feeds it.

    A subclass wires the head and says of itself: `loss_terms`, `score_terms`, `serve` and
    `get_config`.

    Args:
        encoder: the encoder.
        preprocessor: a `TextPreprocessor`; `None` if ids will be fed.
        inputs, outputs: the functional graph.
        pair: whether the inputs are pairs of texts; `None` to learn it from the first texts given.
        **kwargs: as `SteppedModel` takes them.
    """

    def __init__(self, encoder, preprocessor, inputs, outputs, pair=None, **kwargs):
        _check_preprocessor(encoder, preprocessor)
        super().__init__(inputs=inputs, outputs=outputs, **kwargs)
        # Keras scales the loss by the policy of the model, not of its layers.
        self.dtype_policy = encoder.token_embedding.dtype_policy
        self.encoder = encoder
        # Not a sub-layer: it has no weights and no part in a step, and strings would rule out XLA.
        # The .keras format finds it among the attributes all the same.
        self.__dict__["preprocessor"] = preprocessor
        self.pair = pair

    def serve(self, ids) -> dict:
        """Turns a dict of ids into the outputs of an exported model, in graph."""
        raise ValueError(f"{type(self).__name__} has nothing to export.")

    def save(self, filepath: str | os.PathLike, overwrite: bool = True, **kwargs) -> None:
        """Writes the task to a `.keras` file, whole or not at all: the vocabulary is inside.

        Args:
            filepath: path of the file, which must end in `.keras`.
            overwrite: whether a file that is there may be replaced.

        Raises:
            ValueError: if the path ends otherwise, or there is such a file and `overwrite` is
                false.
        """
        path = pathlib.Path(filepath)
        if path.suffix != ".keras":
            raise ValueError(
                f"A task is saved to a .keras file, which holds its vocabulary. Received: {path}"
            )
        if path.exists() and not overwrite:
            raise ValueError(f"There is a file {path}, and `overwrite` is false.")
        partial = path.with_name(f".{path.stem}.partial.keras")
        try:
            super().save(partial, **kwargs)
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)

    def signatures(self) -> dict:
        """Returns the functions to export, by name, each with the specs of its arguments."""
        names = ("token_ids", "segment_ids", "padding_mask")
        id_specs = [tf.TensorSpec(self.input[name].shape, tf.int32, name) for name in names]
        texts = ("text_a", "text_b") if self.pair else ("text",)
        text_specs = [tf.TensorSpec((None,), tf.string, name) for name in texts]

        def from_ids(token_ids, segment_ids, padding_mask):
            return self.serve(dict(zip(names, (token_ids, segment_ids, padding_mask), strict=True)))

        def from_text(*columns):
            return self.serve(self.read_texts(columns if self.pair else columns[0]))

        signatures = {"token_ids": (from_ids, id_specs)}
        if self.preprocessor is None:
            return signatures
        return {"serving_default": (from_text, text_specs)} | signatures

    def assets(self) -> dict:
        """Returns the text files that go with an export, by name, as lists of lines."""
        return {"vocab.txt": self.tokenizer.vocabulary} if self.tokenizer is not None else {}

    def export(self, filepath: str | os.PathLike, with_text: bool = True) -> None:
        """Writes a SavedModel that answers raw strings.

        `serving_default` takes strings and `token_ids` takes ids. It loads in a process that has
        imported `tensorflow` and `tensorflow_text`. The folder's `assets` hold the vocabulary and
        the labels.

        Args:
            filepath: folder to write; a SavedModel there is replaced.
            with_text: whether strings are taken. Without, ids are what `serving_default` takes
                too, and the model loads with `tensorflow` alone.

        Raises:
            ValueError: if strings are asked for and the task has no preprocessor, or as
                `export_saved_model` does.
        """
        if with_text and self.preprocessor is None:
            raise ValueError(
                f"{self.name} has no preprocessor, so its export cannot take strings: make it "
                "with `preprocessor=...`, or pass `with_text=False` to export what takes ids."
            )
        signatures = self.signatures()
        if not with_text:
            ids = signatures["token_ids"]
            signatures = {"serving_default": ids, "token_ids": ids}
        export_saved_model(self, filepath, signatures, self.assets())

    def get_config(self):
        return {
            "name": self.name,
            "encoder": keras.saving.serialize_keras_object(self.encoder),
            "preprocessor": keras.saving.serialize_keras_object(self.preprocessor),
            "pair": self.pair,
            "frozen": frozen_layers(self),
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
        config = dict(config)
        frozen = config.pop("frozen", ())
        for part in ("encoder", "preprocessor"):
            config[part] = keras.saving.deserialize_keras_object(
                config[part], custom_objects=custom_objects
            )
        return freeze_layers(cls(**config), frozen)


def _check_preprocessor(encoder, preprocessor):
    if preprocessor is None:
        return
    if not isinstance(preprocessor, TextPreprocessor):
        raise ValueError(
            f"`preprocessor` is a TextPreprocessor, or None. Received: {preprocessor!r:.80}"
        )
    rows, tokenizer = encoder.config.vocab_size, preprocessor.tokenizer
    if tokenizer.has_vocabulary and tokenizer.vocabulary_size > rows:
        raise ValueError(
            f"The tokenizer's vocabulary has {tokenizer.vocabulary_size} entries, but the "
            f"encoder's token table only {rows} rows (`vocab_size`)."
        )
    length = preprocessor.sequence_length
    if encoder.sequence_length is not None and length != encoder.sequence_length:
        raise ValueError(
            f"The encoder takes exactly {encoder.sequence_length} tokens, but the preprocessor "
            f"gives {length} (`sequence_length`)."
        )
    if length > encoder.config.max_position_embeddings:
        raise ValueError(
            f"The preprocessor gives {length} tokens (`sequence_length`), but the encoder has "
            f"only {encoder.config.max_position_embeddings} positions."
        )
