"""What tasks that label tokens share: labels, loss and score on ids, and what an export says."""

from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf

from keras_bert_zoo.encoders.transformer import TransformerEncoder
from keras_bert_zoo.tasks.base import Task
from keras_bert_zoo.tasks.heads import given_losses, pad_rows, word_places
from keras_bert_zoo.tasks.inputs import holds_text
from keras_bert_zoo.tasks.labels import refuse_loss_name
from keras_bert_zoo.tasks.step import same_class, weighed
from keras_bert_zoo.text.preprocessor import TextPreprocessor


class TokenLabels(Task):
    """A task whose outputs are float32 logits (B, L, labels), and whose targets int (B, L).

    Args:
        encoder: the encoder.
        labels: the labels' names, in the order of the logits.
        preprocessor: a `TextPreprocessor`, or `None`.
        inputs, outputs: the functional graph.
    """

    reads_pooler = False
    instead_of_class_weight = (
        "weigh tokens by `sample_weight`, of the labels' shape, or give `label_weights` to "
        "keras_bert_zoo.datasets.tagging.encode_tagged."
    )

    def __init__(
        self,
        encoder: TransformerEncoder,
        labels: Sequence[str],
        preprocessor: TextPreprocessor | None,
        inputs: dict,
        outputs: keras.KerasTensor,
        **kwargs,
    ):
        super().__init__(
            encoder, preprocessor, inputs, outputs, score_names=("token_accuracy",), **kwargs
        )
        self.labels = labels

    def compile(self, optimizer="adam", clip_norm=None, loss=None, **kwargs):
        refuse_loss_name(loss, "SparseCategoricalCrossentropy")
        super().compile(optimizer, clip_norm, loss, **kwargs)

    compile.__doc__ = Task.compile.__doc__

    def loss_terms(self, x, y, outputs, sample_weight):
        y, weights = self._labelled(y, sample_weight)
        if self.loss_function is not None:
            losses = given_losses(self.loss_function, y, outputs)
        else:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=outputs)
        return {"loss": weighed(losses, weights)}

    def score_terms(self, x, y, outputs, sample_weight):
        y, weights = self._labelled(y, sample_weight)
        return {"token_accuracy": weighed(same_class(outputs, y), weights)}

    def _labelled(self, y, sample_weight):
        """Labels, int32 (B, L), 0 where there is none; and their weights, float32 (B, L)."""
        if y is None:
            raise ValueError(f"{self.name} needs labels, `y`, and none were given.")
        if y.shape.rank not in (None, 2) or not y.dtype.is_integer:
            raise ValueError(self._wanted(f"{y.dtype.name} of {y.shape}"))
        weights = tf.cast(y >= 0, tf.float32)
        if sample_weight is not None:
            # To (B, 1) or (B, L); a replica may have no row.
            rows = tf.shape(y)[0]
            width = tf.maximum(tf.size(sample_weight) // tf.maximum(rows, 1), 1)
            weights *= tf.cast(tf.reshape(sample_weight, [rows, width]), tf.float32)
        return tf.cast(tf.maximum(y, 0), tf.int32), weights

    def _wanted(self, received):
        return (
            "The labels of tokens are whole numbers, (examples, tokens), from 0 to "
            f"{len(self.labels) - 1}, or negative where there is none. Received: {received}"
        )

    def read_columns(self, x, y=None):
        y = None if y is None else np.asarray(y)
        shape = np.shape(x.get("token_ids")) if isinstance(x, dict) else ()
        if y is not None and shape and y.shape != shape:
            raise ValueError(
                f"There must be a label for each token. Received ids of {shape} and labels of "
                f"{y.shape}."
            )
        return x, y

    def check_labels(self, y=None):
        if y is None:
            return
        y = np.asarray(y)
        if y.ndim != 2 or y.dtype.kind not in "iu":
            raise ValueError(self._wanted(f"{y.dtype} of {y.shape}"))
        if y.size and y.max() >= len(self.labels):
            raise ValueError(self._wanted(y.max()))

    def prepare_batch(self, x, y=None, sample_weight=None):
        if holds_text(x):
            # Outputs are as long as the rows, and those of all batches have to be of one length.
            length = self.preprocessor.sequence_length
            x = pad_rows(self.preprocessor(x), length, self.tokenizer.pad_id)
        return super().prepare_batch(x, y, sample_weight)

    def serve(self, ids):
        logits = self(ids, training=False)
        is_word = word_places(ids)
        names = tf.gather(tf.constant(self.labels), tf.argmax(logits, axis=-1))
        return {
            "labels": tf.where(is_word, names, ""),
            "probabilities": tf.where(is_word, tf.reduce_max(tf.nn.softmax(logits), axis=-1), 0.0),
            "logits": logits,
        }

    def assets(self):
        return super().assets() | {"labels.txt": self.labels}

    def get_config(self):
        return super().get_config() | {"labels": self.labels}
