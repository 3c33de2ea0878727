"""Classification of a text, or of a pair, by labels that do not exclude each other."""

from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf

from keras_bert_zoo.encoders.transformer import TransformerEncoder
from keras_bert_zoo.tasks.classifier import TextClassifier
from keras_bert_zoo.tasks.heads import example_weights, given_losses
from keras_bert_zoo.tasks.labels import assertions
from keras_bert_zoo.tasks.preset_heads import check_problem_type
from keras_bert_zoo.tasks.step import weighed
from keras_bert_zoo.text.preprocessor import TextPreprocessor


@keras.saving.register_keras_serializable(package="keras_bert_zoo")
class MultiLabelClassifier(TextClassifier):
    """Says which labels a text, or a pair of texts, has: none, one, or several.

    The head is `TextClassifier`'s; each label is a decision of its own, `sigmoid(logit)`. The loss
    is the sigmoid cross-entropy, its mean over the labels and then over the examples; the score,
    `label_accuracy`, the share of decisions that are right. Outputs are float32 logits (B, labels).

    Labels are given to `fit` as a list of names for each example, or as 0 and 1, (B, labels). In
    a dataset names may be ragged, or filled up with "".

    Args:
        encoder: the encoder.
        labels: the labels' names, one or more, in the order of the logits.
        preprocessor: a `TextPreprocessor`; `None` if ids will be fed.
        dropout: dropout rate on the pooled vector.
        pair: as in `TextClassifier`.

    Raises:
        ValueError: if there is no label, or one stands twice.

    Example:

    ```python
    task = kbz.MultiLabelClassifier(encoder, ["film", "tea", "good"], preprocessor=preprocessor)
    task.compile(kbz.adamw(3e-5, total_steps=300, warmup_steps=30), clip_norm=1.0)
    task.fit(["a good film", "fine tea", "what ?"], [["film", "good"], ["tea", "good"], []])
    task.classify(["good tea"])[0]["labels"]
    ```
    """

    score_name = "label_accuracy"
    fewest_labels = 1
    loss_example = "BinaryCrossentropy"
    instead_of_class_weight = "weigh whole examples by `sample_weight`."

    def __init__(
        self,
        encoder: TransformerEncoder,
        labels: Sequence[str],
        preprocessor: TextPreprocessor | None = None,
        dropout: float = 0.1,
        **kwargs,
    ):
        if labels is None:
            raise ValueError("`labels` must be a list of names. Received: None")
        super().__init__(encoder, labels, preprocessor, dropout, **kwargs)

    @classmethod
    def check_problem_type(cls, folder, classes):
        check_problem_type(folder, ("multi_label_classification",), instead="TextClassifier")

    def preset_settings(self):
        return super().preset_settings() | {"problem_type": "multi_label_classification"}

    def loss_terms(self, x, y, outputs, sample_weight):
        y = self._column(y)
        if self.loss_function is not None:
            losses = given_losses(self.loss_function, y, outputs)
            losses = tf.reduce_mean(losses, axis=-1) if losses.shape.rank == 2 else losses
        else:
            losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=y, logits=outputs)
            losses = tf.reduce_mean(losses, axis=-1)
        return {"loss": weighed(losses, example_weights(y, sample_weight))}

    def score_terms(self, x, y, outputs, sample_weight):
        y = self._column(y)
        hits = tf.cast((outputs > 0) == (y > 0.5), tf.float32)
        weights = example_weights(y, sample_weight)
        return {"label_accuracy": weighed(tf.reduce_mean(hits, axis=-1), weights)}

    def _column(self, y):
        """Labels (B, labels) as float32."""
        if y is None:
            raise ValueError(f"{self.name} needs labels, `y`, and none were given.")
        if y.shape.rank is not None and not y.shape.is_compatible_with([None, len(self.labels)]):
            raise ValueError(self._wanted(f"labels of {y.shape}"))
        return tf.cast(y, tf.float32)

    def _wanted(self, received):
        return (
            "The labels of an example are a list of names, or 0 and 1 for each of "
            f"{', '.join(self.labels)}. Received: {received}"
        )

    def prepare_labels(self, y):
        if y is None:
            return y
        if y.dtype == tf.string:
            if isinstance(y, tf.RaggedTensor):
                y = y.to_tensor("")
            if y.shape.rank != 2:
                raise ValueError(self._wanted(f"names of {y.shape}"))
            matches = y[:, :, tf.newaxis] == tf.constant(self.labels)
            # No label has the name "".
            known = tf.reduce_any(matches, axis=-1) | (y == "")
            switches = tf.reduce_any(matches, axis=1)
        else:
            switches = self._column(y)
            known = (switches == 0) | (switches == 1)
        with tf.control_dependencies(assertions(known, self._wanted("these:"), y)):
            return tf.cast(switches, tf.float32)

    def check_labels(self, y=None):
        self._switches(y)

    def read_columns(self, x, y=None):
        return x, self._switches(y)

    def _switches(self, y):
        """A column of labels, in any of its forms, as float32 (B, labels)."""
        if y is None:
            return None
        if tf.is_tensor(y):
            y = y.to_list() if isinstance(y, tf.RaggedTensor) else y.numpy()
        if isinstance(y, np.ndarray) and y.dtype.kind in "biuf":
            if y.ndim != 2 or y.shape[1] != len(self.labels):
                raise ValueError(self._wanted(f"labels of {y.shape}"))
            for number in np.flatnonzero(~np.isin(y, (0, 1)).all(axis=1))[:1]:
                raise ValueError(self._wanted(f"{y[number].tolist()} for example {number}"))
            return y.astype(np.float32)
        rows = y.tolist() if isinstance(y, np.ndarray) else list(y)
        switches = np.zeros([len(rows), len(self.labels)], np.float32)
        for number, row in enumerate(rows):
            if isinstance(row, (str, bytes)) or not np.iterable(row):
                raise ValueError(self._wanted(f"{row!r} for example {number}"))
            row = [name.decode() if isinstance(name, bytes) else name for name in row]
            if all(isinstance(name, str) for name in row):
                unknown = sorted({*row} - {"", *self.labels})
                if unknown:
                    raise ValueError(self._wanted(f"{unknown[0]!r} for example {number}"))
                switches[number] = [name in row for name in self.labels]
            elif len(row) == len(self.labels) and all(value in (0, 1) for value in row):
                switches[number] = row
            else:
                raise ValueError(self._wanted(f"{row!r:.200} for example {number}"))
        return switches

    def classify(self, x, batch_size: int | None = None, threshold: float = 0.5) -> list[dict]:
        """Gives each text's labels and the probabilities of all.

        Args:
            x: texts or ids, as `predict` takes them.
            batch_size: examples a batch, 32 by default.
            threshold: the least probability of a label that a text has.

        Returns:
            A dict for each text: `labels`, a list of names in the order of the labels, and
            `probabilities` (by label).
        """
        if not 0 <= threshold <= 1:
            raise ValueError(f"`threshold` is a probability. Received: {threshold!r}")
        logits = self.predict(x, batch_size=batch_size, verbose=0)
        answers = []
        for row in tf.sigmoid(logits.astype(np.float64)).numpy().tolist():
            shares = dict(zip(self.labels, row, strict=True))
            names = [name for name, share in shares.items() if share >= threshold]
            answers.append({"labels": names, "probabilities": shares})
        return answers

    def serve(self, ids):
        logits = self(ids, training=False)
        names = tf.constant(self.labels)
        return {
            "label_names": tf.tile(names[None, :], [tf.shape(logits)[0], 1]),
            "probabilities": tf.sigmoid(logits),
            "logits": logits,
        }
