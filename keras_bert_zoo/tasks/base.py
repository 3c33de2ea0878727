"""What every task shares: text in, saving and export; the training step is in `step.py`."""

import os
import pathlib

import keras
import numpy as np
import tensorflow as tf

from keras_bert_zoo.encoders.bert import BertEncoder
from keras_bert_zoo.encoders.transformer import freeze_layers, frozen_layers
from keras_bert_zoo.presets import get_preset
from keras_bert_zoo.serving.export import export_saved_model
from keras_bert_zoo.tasks.inputs import (
    holds_pairs,
    holds_text,
    inputs_of,
    split_columns,
    text_dataset,
)
from keras_bert_zoo.tasks.step import SteppedModel
from keras_bert_zoo.text.preprocessor import TextPreprocessor
from keras_bert_zoo.text.wordpiece import WordPieceTokenizer


class Task(SteppedModel):
    """A model from an encoder's inputs to a head's outputs, with the preprocessor that feeds it.

    A subclass wires the head and says of itself: `loss_terms`, `score_terms`, `answer` and
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

    @classmethod
    def from_preset(
        cls,
        preset: str,
        load_weights: bool = True,
        vocabulary=None,
        sequence_length: int = 128,
        **kwargs,
    ) -> "Task":
        """Builds the task on the encoder of a named preset.

        Args:
            preset: a name in `keras_bert_zoo.presets.PRESETS`.
            load_weights: must be false: fresh weights. Released weights cannot be read yet.
            vocabulary: path or list of the WordPiece vocabulary; `None` for no preprocessor.
            sequence_length: tokens that texts are cut and padded to.
            **kwargs: as the constructor takes them, less `encoder` and `preprocessor`.

        Raises:
            ValueError: as `BertEncoder.from_preset` and the constructor do.
        """
        encoder = BertEncoder.from_preset(preset, load_weights=load_weights)
        preprocessor = None
        if vocabulary is not None:
            tokenizer = WordPieceTokenizer(vocabulary, lowercase=get_preset(preset).lowercase)
            preprocessor = TextPreprocessor(tokenizer, sequence_length)
        return cls(encoder, preprocessor=preprocessor, **kwargs)

    @property
    def tokenizer(self):
        """The preprocessor's tokenizer, or `None`."""
        return self.preprocessor and self.preprocessor.tokenizer

    def prepare_labels(self, y):
        """Turns labels as users give them into those `loss_terms` takes, in graph."""
        return y

    def check_labels(self, y=None):
        """Raises ValueError if a given column of labels holds one that the task does not know."""

    def answer(self, ids) -> dict:
        """Turns a dict of ids into the outputs of an exported model, in graph."""
        raise ValueError(f"{type(self).__name__} has no answer to export.")

    def read_texts(self, texts) -> dict:
        """Turns texts into ids, as an exported model does it, in graph."""
        return self.preprocessor(texts)

    def prepare_batch(self, x, y=None, sample_weight=None) -> tuple:
        """Turns a batch of raw examples into what the model and `loss_terms` take, in graph."""
        if holds_text(x):
            x = self.preprocessor(x)
        parts = (x, self.prepare_labels(y), sample_weight)
        return tuple(part for part in parts if part is not None)

    def prepare(self, dataset, training=False):
        """Maps `prepare_batch` over a dataset of batches of raw examples.

        Args:
            dataset: a `tf.data.Dataset` of tuples of one to three parts.
            training: whether it is for training.
        """
        # Traced once, not anew for every call of `predict`; again for another preprocessor.
        known = self.__dict__.get("_prepare_batch")
        if known is None or known[0] is not self.preprocessor:
            function = tf.function(self.prepare_batch, autograph=False)
            known = self.__dict__["_prepare_batch"] = (self.preprocessor, function)
        return dataset.map(known[1], num_parallel_calls=tf.data.AUTOTUNE)

    # Text in.

    def fit(
        self,
        x=None,
        y=None,
        batch_size=None,
        epochs=1,
        verbose="auto",
        callbacks=None,
        validation_split=0.0,
        validation_data=None,
        shuffle=True,
        class_weight=None,
        sample_weight=None,
        initial_epoch=0,
        steps_per_epoch=None,
        validation_steps=None,
        validation_batch_size=None,
        validation_freq=1,
    ):
        """Trains on texts or on ids.

        Args:
            x: texts (a list of strings, a list of pairs, a tuple of two lists, or a dict with
                `text` or with `text_a` and `text_b`), or a `tf.data.Dataset` of such a text and
                its label, batched or not; or ids, as the model takes them.
            y: labels, as the task takes them; not with a dataset.
            batch_size: examples a batch, 32 by default.
            validation_split: share of given columns, from their end, to validate on.
            validation_data: `(x, y)` or a dataset, in the forms of `x` and `y`.
            shuffle: whether given texts or arrays are drawn in a new order each epoch.
            sample_weight: weights, one an example.
            steps_per_epoch: needed for a dataset without end.
            epochs, verbose, callbacks, class_weight, initial_epoch, validation_steps,
                validation_batch_size, validation_freq: as in `keras.Model.fit`.

        Returns:
            A `keras.callbacks.History`.
        """
        _check_end(x, steps_per_epoch, "steps_per_epoch")
        _check_end(validation_data, validation_steps, "validation_steps")
        self.check_labels(y)
        raw = self._is_raw(x, y)
        if isinstance(x, tf.data.Dataset):
            shuffle = False
        if raw and validation_split and validation_data is None:
            (x, y, sample_weight), validation_data = split_columns(
                x, y, sample_weight, validation_split
            )
            validation_split = 0.0
        if raw:
            x = self._prepared(x, y, sample_weight, batch_size, shuffle=shuffle, training=True)
            x = x.prefetch(tf.data.AUTOTUNE)
            y, sample_weight, shuffle = None, None, False
        if validation_data is not None:
            parts = (validation_data, None, None)
            if isinstance(validation_data, tuple):
                parts = keras.utils.unpack_x_y_sample_weight(validation_data)
            self.check_labels(parts[1])
            if self._is_raw(*parts[:2]):
                validation_data = self._prepared(*parts, validation_batch_size or batch_size)
                validation_batch_size = None
        return super().fit(
            x,
            y,
            batch_size=None if raw else batch_size,
            epochs=epochs,
            verbose=verbose,
            callbacks=callbacks,
            validation_split=validation_split,
            validation_data=validation_data,
            shuffle=shuffle,
            class_weight=class_weight,
            sample_weight=sample_weight,
            initial_epoch=initial_epoch,
            steps_per_epoch=steps_per_epoch,
            validation_steps=validation_steps,
            validation_batch_size=validation_batch_size,
            validation_freq=validation_freq,
        )

    def evaluate(
        self,
        x=None,
        y=None,
        batch_size=None,
        verbose="auto",
        sample_weight=None,
        steps=None,
        **kwargs,
    ):
        """Gives loss and metrics on texts or ids, in the forms `fit` takes.

        The arguments are those of `keras.Model.evaluate`.
        """
        _check_end(x, steps, "steps")
        self.check_labels(y)
        if self._is_raw(x, y):
            x = self._prepared(x, y, sample_weight, batch_size)
            y = sample_weight = batch_size = None
        return super().evaluate(
            x,
            y,
            batch_size=batch_size,
            verbose=verbose,
            sample_weight=sample_weight,
            steps=steps,
            **kwargs,
        )

    def predict(self, x, batch_size=None, verbose="auto", steps=None, **kwargs):
        """Gives the model's outputs on texts or ids, in the forms `fit` takes, as numpy arrays.

        The arguments are those of `keras.Model.predict`.
        """
        _check_end(x, steps, "steps")
        if self._is_raw(x):
            x = text_dataset(x, batch_size=batch_size)
            if x.cardinality() == 0:
                return keras.tree.map_structure(
                    lambda t: np.zeros([0, *(size or 0 for size in t.shape[1:])], t.dtype),
                    self.output,
                )
            x, batch_size = self._read(x), None
        return super().predict(x, batch_size=batch_size, verbose=verbose, steps=steps, **kwargs)

    def _prepared(self, x, y, sample_weight, batch_size, shuffle=False, training=False):
        """Raw examples as a dataset of what the model and `loss_terms` take."""
        dataset = text_dataset(x, y, sample_weight, batch_size, shuffle=shuffle)
        if dataset.cardinality() == 0:
            raise ValueError("There are no examples: the data given are empty.")
        return self._read(dataset, training)

    def _read(self, dataset, training=False):
        """`prepare`, once it is known whether the task takes pairs, and that these are such."""
        inputs = inputs_of(dataset)
        if holds_text(inputs):
            pair = holds_pairs(inputs)
            if self.pair not in (None, pair):
                kinds = ("single texts", "pairs of texts")
                raise ValueError(
                    f"{self.name} takes {kinds[self.pair]}, and {kinds[pair]} were given."
                )
            if pair and self.encoder.config.type_vocab_size < 2:
                raise ValueError(
                    "Pairs need two segments, and the encoder has `type_vocab_size="
                    f"{self.encoder.config.type_vocab_size}`."
                )
            self.pair = pair
        return self.prepare(dataset, training=training)

    def _is_raw(self, x, y=None) -> bool:
        """Whether `x` or `y` holds text, which has to be prepared."""
        inputs = inputs_of(x)
        # Ids come as a dict, so a list can only be meant as texts.
        texts = holds_text(inputs) or isinstance(inputs, list)
        if texts and self.preprocessor is None:
            raise ValueError(
                f"{self.name} has no preprocessor, so it takes ids, and texts were given: make it "
                "with `preprocessor=keras_bert_zoo.TextPreprocessor(...)`."
            )
        return texts or holds_text(x) or holds_text(y)

    # Out.

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
        shape = (None, self.encoder.sequence_length)
        names = ("token_ids", "segment_ids", "padding_mask")
        id_specs = [tf.TensorSpec(shape, tf.int32, name) for name in names]
        texts = ("text_a", "text_b") if self.pair else ("text",)
        text_specs = [tf.TensorSpec((None,), tf.string, name) for name in texts]

        def from_ids(token_ids, segment_ids, padding_mask):
            return self.answer(
                dict(zip(names, (token_ids, segment_ids, padding_mask), strict=True))
            )

        def from_text(*columns):
            return self.answer(self.read_texts(columns if self.pair else columns[0]))

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


def _check_end(data, steps, name):
    if steps is not None or not isinstance(data, tf.data.Dataset):
        return
    if data.cardinality() == tf.data.INFINITE_CARDINALITY:
        raise ValueError(f"The dataset has no end: say how many batches to take, `{name}=...`.")


def _check_preprocessor(encoder, preprocessor):
    if preprocessor is None:
        return
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
