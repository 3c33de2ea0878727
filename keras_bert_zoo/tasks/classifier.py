"""Classification of one text or of a pair, and regression."""

from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf

from keras_bert_zoo.encoders.transformer import TransformerEncoder, encoder_inputs
from keras_bert_zoo.tasks.base import Task
from keras_bert_zoo.tasks.heads import dense_head, example_weights, given_losses
from keras_bert_zoo.tasks.labels import assertions, checked_labels, refuse_loss_name
from keras_bert_zoo.tasks.preset_heads import (
    check_problem_type,
    classifier_arguments,
    label_settings,
)
from keras_bert_zoo.tasks.step import same_class, weighed
from keras_bert_zoo.text.preprocessor import TextPreprocessor


@keras.saving.register_keras_serializable(package="keras_bert_zoo")
class TextClassifier(Task):
    """Says which label a text, or a pair of texts, has; or, without labels, gives a number.

    `softmax(W dropout(pooled_output) + b)` and cross-entropy (arXiv 1810.04805, section 4.1);
    for regression one output and squared error. Outputs are float32 logits (B, labels), or
    (B, 1) for regression.

    Args:
        encoder: the encoder.
        labels: the labels' names, in the order of the logits; `None` for regression.
        preprocessor: a `TextPreprocessor`; `None` if ids will be fed.
        dropout: dropout rate on the pooled vector.
        pair: whether the inputs are pairs of texts; `None` to learn it from the first texts given
            to `fit`, `evaluate` or `predict`.

    Labels are given to `fit` as names or as numbers from 0, for regression as numbers.

    Raises:
        ValueError: if there are fewer than two labels, or one stands twice.

    Example:

    ```python
    task = kbz.TextClassifier(encoder, labels=["negative", "positive"], preprocessor=preprocessor)
    task.compile(kbz.adamw(3e-5, total_steps=300, warmup_steps=30), clip_norm=1.0)
    task.fit(["what a film", "what a bore"], ["positive", "negative"])
    task.classify(["a joy"])[0]["label"]
    ```
    """

    architecture = "BertForSequenceClassification"
    # What a subclass with another kind of label sets.
    head_name = "logits"
    score_name = "accuracy"
    fewest_labels = 2
    loss_example = "SparseCategoricalCrossentropy"

    def __init__(
        self,
        encoder: TransformerEncoder,
        labels: Sequence[str] | None = None,
        preprocessor: TextPreprocessor | None = None,
        dropout: float = 0.1,
        **kwargs,
    ):
        if labels is not None:
            advice = " For regression leave `labels` out." if self.fewest_labels > 1 else ""
            labels = checked_labels(labels, self.fewest_labels, advice)
        inputs = encoder_inputs(encoder.sequence_length)
        outputs = dense_head(
            encoder,
            encoder.read(inputs)["pooled_output"],
            len(labels) if labels else 1,
            dropout,
            name=self.head_name,
        )
        super().__init__(
            encoder,
            preprocessor,
            inputs,
            outputs,
            score_names=(self.score_name if labels else "mean_absolute_error",),
            **kwargs,
        )
        self.labels = labels
        self.dropout_rate = dropout

    def compile(self, optimizer="adam", clip_norm=None, loss=None, **kwargs):
        if self.labels is not None:
            refuse_loss_name(loss, self.loss_example)
        super().compile(optimizer, clip_norm, loss, **kwargs)

    compile.__doc__ = Task.compile.__doc__

    def loss_terms(self, x, y, outputs, sample_weight):
        y = self._column(y)
        if self.loss_function is not None:
            losses = tf.reshape(given_losses(self.loss_function, y[:, None], outputs), [-1])
        elif self.labels is None:
            losses = tf.square(outputs[:, 0] - y)
        else:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=outputs)
        return {"loss": weighed(losses, example_weights(y, sample_weight))}

    def score_terms(self, x, y, outputs, sample_weight):
        y = self._column(y)
        values = tf.abs(outputs[:, 0] - y) if self.labels is None else same_class(outputs, y)
        return {self.score_names[0]: weighed(values, example_weights(y, sample_weight))}

    def _column(self, y):
        """Labels (B,) or (B, 1) as int32 or, for regression, float32 (B,)."""
        if y is None:
            raise ValueError(f"{self.name} needs labels, `y`, and none were given.")
        if y.shape.rank is not None and y.shape[1:].num_elements() != 1:
            raise ValueError(f"There must be one label an example. Received labels of {y.shape}.")
        return tf.cast(tf.reshape(y, [-1]), tf.float32 if self.labels is None else tf.int32)

    def prepare_labels(self, y):
        if y is None or self.labels is None:
            return y
        y = tf.reshape(y, [-1])
        if y.dtype == tf.string:
            matches = y[:, tf.newaxis] == tf.constant(self.labels)
            number, known = tf.argmax(matches, axis=-1), tf.reduce_any(matches, axis=-1)
        else:
            number = tf.cast(y, tf.int64)
            known = (tf.cast(number, y.dtype) == y) & (number >= 0) & (number < len(self.labels))
        message = (
            f"Labels must be among {', '.join(self.labels)}, or numbers from 0 to "
            f"{len(self.labels) - 1}. Received:"
        )
        with tf.control_dependencies(assertions(known, message, y)):
            return tf.cast(number, tf.int32)

    def check_labels(self, y=None):
        if y is None:
            return
        y = np.asarray(y)
        if y.ndim not in (1, 2) or y.size != len(y):
            raise ValueError(f"There must be one label an example. Received labels of {y.shape}.")
        for number, label in enumerate(y.ravel().tolist()):
            label = label.decode() if isinstance(label, bytes) else label
            if self.labels is None:
                if isinstance(label, str) or not np.isfinite(label):
                    raise ValueError(
                        f"A regression's labels are finite numbers. Label {number} is: {label!r}"
                    )
            elif label not in (self.labels if isinstance(label, str) else range(len(self.labels))):
                raise ValueError(
                    f"Labels must be among {', '.join(self.labels)}, or numbers from 0 to "
                    f"{len(self.labels) - 1}. Label {number} is: {label!r}"
                )

    def classify(self, x, batch_size: int | None = None) -> list[dict]:
        """Gives each text's label and the probabilities of all.

        Args:
            x: texts or ids, as `predict` takes them.
            batch_size: examples a batch, 32 by default.

        Returns:
            A dict for each text: `label`, `probability` (the label's) and `probabilities` (by
            label); for regression only `score`.
        """
        logits = self.predict(x, batch_size=batch_size, verbose=0)
        if self.labels is None:
            return [{"score": float(value)} for value in logits[:, 0]]
        answers = []
        for row in tf.nn.softmax(logits.astype(np.float64)).numpy():
            best = int(row.argmax())
            answers.append(
                {
                    "label": self.labels[best],
                    "probability": float(row[best]),
                    "probabilities": dict(zip(self.labels, map(float, row), strict=True)),
                }
            )
        return answers

    def serve(self, ids):
        logits = self(ids, training=False)
        if self.labels is None:
            return {"score": logits[:, 0]}
        names = tf.constant(self.labels)
        return {
            "label": tf.gather(names, tf.argmax(logits, axis=-1)),
            "label_names": tf.tile(names[None, :], [tf.shape(logits)[0], 1]),
            "probabilities": tf.nn.softmax(logits),
            "logits": logits,
        }

    def assets(self):
        return super().assets() | ({"labels.txt": self.labels} if self.labels else {})

    @classmethod
    def preset_arguments(cls, folder, classes, given):
        regression = cls.fewest_labels > 1
        arguments, skip = classifier_arguments(folder, classes, given, cls.architecture, regression)
        if not skip:
            cls.check_problem_type(folder, classes)
        return arguments, skip

    @classmethod
    def check_problem_type(cls, folder, classes):
        """Raises ValueError if a preset's classifier, of so many outputs, decides otherwise."""
        kinds = ("regression", "single_label_classification")
        check_problem_type(folder, kinds, instead="MultiLabelClassifier")
        if folder.values.get("problem_type") == "regression" and classes > 1:
            raise ValueError(
                f"The model in {folder.path} is a regression of {classes} numbers, and one of "
                "one number is what there is."
            )

    def preset_settings(self):
        kind = "regression" if self.labels is None else "single_label_classification"
        return label_settings(self.labels or ["LABEL_0"]) | {
            "problem_type": kind,
            "classifier_dropout": self.dropout_rate,
        }

    def get_config(self):
        return super().get_config() | {"labels": self.labels, "dropout": self.dropout_rate}
