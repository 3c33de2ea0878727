"""Training, evaluating and predicting on texts: raw examples become ids on the way in."""

from collections.abc import Mapping

import keras
import numpy as np
import tensorflow as tf

from keras_bert_zoo.tasks.inputs import (
    holds_pairs,
    holds_text,
    inputs_of,
    split_columns,
    steady,
    text_dataset,
)
from keras_bert_zoo.tasks.labels import refuse_class_weight
from keras_bert_zoo.tasks.step import SteppedModel


class TextModel(SteppedModel):
    """A model of ids that takes texts too, through its `preprocessor`.

    A subclass has the attributes `encoder`, `preprocessor` and `pair`.
    """

    preprocessor = None
    pair = None
    # What to do instead of weighing classes; `None` where `class_weight` has a meaning.
    instead_of_class_weight = None

    def read_columns(self, x, y=None) -> tuple:
        """Turns given columns into such as the rest of this class and Keras take.

        Args:
            x: texts or ids, in the forms of `fit`; a dataset is left as it is.
            y: labels, or `None`.

        Returns:
            `(x, y)`.
        """
        return x, np.asarray(y) if isinstance(y, list) else y

    def prepare_labels(self, y):
        """Turns labels as users give them into those `loss_terms` takes, in graph."""
        return y

    def check_labels(self, y=None):
        """Raises ValueError if a given column of labels holds one that the task does not know."""

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
        if self.instead_of_class_weight is not None:
            refuse_class_weight(class_weight, self.instead_of_class_weight)
        x, y = self.read_columns(x, y)
        self.check_labels(y)
        raw = self._is_raw(x, y)
        if isinstance(x, tf.data.Dataset):
            x, shuffle = steady(x), False
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
                *columns, weights = keras.utils.unpack_x_y_sample_weight(validation_data)
                parts = (*self.read_columns(*columns), weights)
                validation_data = keras.utils.pack_x_y_sample_weight(*parts)
            self.check_labels(parts[1])
            if self._is_raw(*parts[:2]):
                validation_data = self._prepared(*parts, validation_batch_size or batch_size)
                validation_batch_size = None
            elif isinstance(validation_data, tf.data.Dataset):
                validation_data = steady(validation_data)
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
        x, y = self.read_columns(x, y)
        self.check_labels(y)
        if self._is_raw(x, y):
            x = self._prepared(x, y, sample_weight, batch_size)
            y = sample_weight = batch_size = None
        elif isinstance(x, tf.data.Dataset):
            x = steady(x)
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
        x, _ = self.read_columns(x)
        if isinstance(x, Mapping) and any(len(part) == 0 for part in x.values()):
            return self._no_outputs(next(iter(x.values())).shape[1:])
        if self._is_raw(x):
            x = text_dataset(x, batch_size=batch_size)
            if x.cardinality() == 0:
                return self._no_outputs((self.preprocessor.sequence_length,))
            x, batch_size = self._read(x), None
        elif isinstance(x, dict):
            x, batch_size = text_dataset(x, batch_size=batch_size), None
        if isinstance(x, tf.data.Dataset):
            x = steady(x)
        return super().predict(x, batch_size=batch_size, verbose=verbose, steps=steps, **kwargs)

    def _no_outputs(self, shape):
        """What the model gives for no examples, whose ids have such a shape."""
        known = dict(zip(range(1, 1 + len(shape)), shape, strict=True))

        def empty(output):
            sizes = [size or known.get(n, 0) for n, size in enumerate(output.shape[1:], 1)]
            return np.zeros([0, *sizes], output.dtype)

        return keras.tree.map_structure(empty, self.output)

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
        return steady(self.prepare(dataset, training=training))

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


def _check_end(data, steps, name):
    if steps is not None or not isinstance(data, tf.data.Dataset):
        return
    if data.cardinality() == tf.data.INFINITE_CARDINALITY:
        raise ValueError(f"The dataset has no end: say how many batches to take, `{name}=...`.")
