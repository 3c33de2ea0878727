"""A label for each token of a text."""

from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf

from keras_bert_zoo.encoders.transformer import TransformerEncoder, encoder_inputs
from keras_bert_zoo.tasks.base import Task
from keras_bert_zoo.tasks.heads import dense_head, given_losses, pad_rows, word_places
from keras_bert_zoo.tasks.inputs import holds_text
from keras_bert_zoo.tasks.labels import checked_labels, refuse_loss_name
from keras_bert_zoo.tasks.preset_heads import classifier_arguments, label_settings
from keras_bert_zoo.tasks.step import same_class, weighed
from keras_bert_zoo.text.preprocessor import TextPreprocessor


@keras.saving.register_keras_serializable(package="keras_bert_zoo")
class TokenClassifier(Task):
    """Says which label each token of a text has (arXiv 1810.04805, section 5.3).

    `softmax(W dropout(sequence_output) + b)` at every place. Outputs are float32 logits
    (B, L, labels).

    Targets are numbers of labels, int (B, L). A negative one takes no part in the loss or the
    score; give one to padding, special tokens and all pieces of a word but the first. The loss is
    the mean cross-entropy over the labelled tokens of the global batch; `sample_weight`, (B,) or
    (B, L), weighs them.

    An exported model returns `labels`, strings (B, L), and `probabilities`, float32 (B, L), of
    these, which are "" and 0 at padding, `[CLS]` and `[SEP]`; and the `logits`.

    Args:
        encoder: the encoder.
        labels: the labels' names, in the order of the logits.
        preprocessor: a `TextPreprocessor`, for `predict` and `export`; `None` if ids will be fed.
        dropout: dropout rate on the vectors of the tokens.

    Raises:
        ValueError: if there are fewer than two labels, or one stands twice.

    Example:

    ```python
    task = kbz.TokenClassifier(encoder, ["O", "PLACE"], preprocessor=preprocessor)
    task.compile(kbz.adamw(3e-5, total_steps=300, warmup_steps=30), clip_norm=1.0)
    ids = preprocessor(["Paris is fine ."])
    labels = np.full(ids["token_ids"].shape, -1)
    labels[0, 1:5] = [1, 0, 0, 0]
    task.fit(ids, labels)
    task.serve(ids)["labels"]
    ```
    """

    architecture = "BertForTokenClassification"
    reads_pooler = False
    instead_of_class_weight = "weigh tokens by `sample_weight`, of the labels' shape."

    def __init__(
        self,
        encoder: TransformerEncoder,
        labels: Sequence[str],
        preprocessor: TextPreprocessor | None = None,
        dropout: float = 0.1,
        **kwargs,
    ):
        labels = checked_labels(labels)
        inputs = encoder_inputs(encoder.sequence_length)
        vectors = encoder(inputs)["sequence_output"]
        outputs = dense_head(encoder, vectors, len(labels), dropout)
        super().__init__(
            encoder, preprocessor, inputs, outputs, score_names=("token_accuracy",), **kwargs
        )
        self.labels = labels
        self.dropout_rate = dropout

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

    @classmethod
    def preset_arguments(cls, folder, classes, given):
        return classifier_arguments(folder, classes, given, cls.architecture)

    def preset_settings(self):
        return label_settings(self.labels) | {"classifier_dropout": self.dropout_rate}

    def get_config(self):
        return super().get_config() | {"labels": self.labels, "dropout": self.dropout_rate}
