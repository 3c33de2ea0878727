"""Classification of one text or of a pair, and regression."""

from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf

from keras_bert_zoo.encoders.transformer import TransformerEncoder, encoder_inputs
from keras_bert_zoo.layers.dropout import Dropout
from keras_bert_zoo.tasks.base import Task
from keras_bert_zoo.tasks.step import same_class, weighed
from keras_bert_zoo.text.layer import check_encodable
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

    def __init__(
        self,
        encoder: TransformerEncoder,
        labels: Sequence[str] | None = None,
        preprocessor: TextPreprocessor | None = None,
        dropout: float = 0.1,
        **kwargs,
    ):
        if labels is not None:
            labels = [labels] if isinstance(labels, str) else list(labels)
            for label in labels:
                if not isinstance(label, str):
                    raise ValueError(
                        f"Labels are names, as strings, and one is {label!r}. In data a number "
                        "means a name's place in this list."
                    )
                check_encodable(label, f"The label {label!r}")
                if label.splitlines() != [label]:
                    raise ValueError(f"A label is one line of text. Received: {label!r}")
            if len(labels) < 2:
                raise ValueError(
                    f"A classifier needs at least two labels. Received: {labels}. For regression "
                    "leave `labels` out."
                )
            twice = sorted({label for label in labels if labels.count(label) > 1})
            if twice:
                raise ValueError(f"Each label must stand once. Twice or more: {', '.join(twice)}")
        inputs = encoder_inputs(encoder.sequence_length)
        pooled = encoder(inputs)["pooled_output"]
        pooled = Dropout(dropout, name="head_dropout", dtype=pooled.dtype)(pooled)
        # Logits and loss are float32 under any policy.
        outputs = keras.layers.Dense(
            len(labels) if labels else 1,
            kernel_initializer=keras.initializers.TruncatedNormal(
                stddev=encoder.config.initializer_range
            ),
            dtype="float32",
            name="logits",
        )(pooled)
        super().__init__(
            encoder,
            preprocessor,
            inputs,
            outputs,
            score_names=("accuracy" if labels else "mean_absolute_error",),
            **kwargs,
        )
        self.labels = labels
        self.dropout_rate = dropout

    def compile(self, optimizer="adam", clip_norm=None, loss=None, **kwargs):
        if isinstance(loss, str) and self.labels is not None:
            raise ValueError(
                f"The loss {loss!r}, by its name, takes probabilities, and a classifier gives "
                "logits: pass an object, such as "
                "keras.losses.SparseCategoricalCrossentropy(from_logits=True)."
            )
        super().compile(optimizer, clip_norm, loss, **kwargs)

    compile.__doc__ = Task.compile.__doc__

    def loss_terms(self, x, y, outputs, sample_weight):
        y = self._column(y)
        if self.loss_function is not None:
            call = getattr(self.loss_function, "call", self.loss_function)
            losses = tf.reshape(tf.cast(call(y[:, None], outputs), tf.float32), [-1])
        elif self.labels is None:
            losses = tf.square(outputs[:, 0] - y)
        else:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=outputs)
        return {"loss": weighed(losses, _weights(y, sample_weight))}

    def score_terms(self, x, y, outputs, sample_weight):
        y = self._column(y)
        values = tf.abs(outputs[:, 0] - y) if self.labels is None else same_class(outputs, y)
        return {self.score_names[0]: weighed(values, _weights(y, sample_weight))}

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
        check = tf.Assert(
            tf.reduce_all(known),
            [
                f"Labels must be among {', '.join(self.labels)}, or numbers from 0 to "
                f"{len(self.labels) - 1}. Received:",
                tf.boolean_mask(y, ~known),
            ],
        )
        with tf.control_dependencies([check] if check is not None else []):
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

    def answer(self, ids):
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

    def get_config(self):
        return super().get_config() | {"labels": self.labels, "dropout": self.dropout_rate}


def _weights(y, sample_weight):
    if sample_weight is None:
        return tf.ones([tf.shape(y)[0]], tf.float32)
    return tf.cast(tf.reshape(sample_weight, [-1]), tf.float32)
