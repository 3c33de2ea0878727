"""Choosing among several continuations of a text."""

import keras
import numpy as np
import tensorflow as tf

from keras_bert_zoo.encoders.transformer import TransformerEncoder, encoder_inputs
from keras_bert_zoo.layers.choices import FoldChoices, UnfoldChoices
from keras_bert_zoo.tasks.base import Task
from keras_bert_zoo.tasks.heads import dense_head, example_weights, given_losses, masked_logits
from keras_bert_zoo.tasks.inputs import holds_text, inputs_of, text_columns
from keras_bert_zoo.tasks.labels import assertions, refuse_loss_name
from keras_bert_zoo.tasks.preset_heads import head_dropout, of_another_class
from keras_bert_zoo.tasks.step import same_class, weighed
from keras_bert_zoo.text.preprocessor import TextPreprocessor


@keras.saving.register_keras_serializable(package="keras_bert_zoo")
class MultipleChoice(Task):
    """Chooses, for each text, one of several second texts (arXiv 1810.04805, section 4.4).

    Each choice is a row `[CLS] text [SEP] choice [SEP]`, and scores `W dropout(pooled_output) + b`;
    a softmax is over the choices of an example. Inputs are `token_ids`, `segment_ids` and
    `padding_mask`, int32 (B, C, L), for any number of choices C. Outputs are float32 logits (B, C).

    Examples with fewer choices than others of their batch are filled up with rows of padding.
    Such a row has a logit, as any other, but no part in the loss, the score and the answers.

    Texts are a dict of `text_a`, a list of strings, and `text_b`, a list of lists of strings, in
    which "" is no choice; or batches of such in a `tf.data.Dataset`, (B,) and (B, C). Targets are
    the numbers of the right choices, int (B,).

    An exported model returns `choice`, int32 (B,), -1 where there is none; `probabilities`,
    float32 (B, C); and the `logits`.

    Args:
        encoder: the encoder.
        preprocessor: a `TextPreprocessor`; `None` if ids will be fed.
        dropout: dropout rate on the pooled vector.

    Example:

    ```python
    task = kbz.MultipleChoice(encoder, preprocessor=preprocessor)
    task.compile(kbz.adamw(3e-5, total_steps=300, warmup_steps=30), clip_norm=1.0)
    texts = {"text_a": ["a cup of"], "text_b": [["tea .", "film .", "paris ."]]}
    task.fit(texts, [0])
    task.choose(texts)[0]["choice"]
    ```
    """

    architecture = "BertForMultipleChoice"

    def __init__(
        self,
        encoder: TransformerEncoder,
        preprocessor: TextPreprocessor | None = None,
        dropout: float = 0.1,
        **kwargs,
    ):
        inputs = {
            name: keras.Input((None, encoder.sequence_length), dtype="int32", name=name)
            for name in encoder_inputs(encoder.sequence_length)
        }
        # Not named: a fold has nothing to save.
        rows = {name: FoldChoices()(tensor) for name, tensor in inputs.items()}
        scores = dense_head(encoder, encoder.read(rows)["pooled_output"], 1, dropout)
        outputs = UnfoldChoices(dtype="float32")(scores, inputs["padding_mask"])
        super().__init__(
            encoder,
            preprocessor,
            inputs,
            outputs,
            score_names=("accuracy",),
            **({"pair": True} | kwargs),
        )
        self.dropout_rate = dropout

    def compile(self, optimizer="adam", clip_norm=None, loss=None, **kwargs):
        refuse_loss_name(loss, "SparseCategoricalCrossentropy")
        super().compile(optimizer, clip_norm, loss, **kwargs)

    compile.__doc__ = Task.compile.__doc__

    def loss_terms(self, x, y, outputs, sample_weight):
        y, logits = self._column(x, y), masked_logits(outputs, _real_choices(x))
        if self.loss_function is not None:
            losses = tf.reshape(given_losses(self.loss_function, y[:, None], logits), [-1])
        else:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits)
        return {"loss": weighed(losses, example_weights(y, sample_weight))}

    def score_terms(self, x, y, outputs, sample_weight):
        y, logits = self._column(x, y), masked_logits(outputs, _real_choices(x))
        return {"accuracy": weighed(same_class(logits, y), example_weights(y, sample_weight))}

    def _column(self, x, y):
        """Numbers of choices (B,) or (B, 1) as int32 (B,), each known to be that of a choice."""
        if y is None:
            raise ValueError(f"{self.name} needs labels, `y`, and none were given.")
        if y.shape.rank is not None and y.shape[1:].num_elements() != 1:
            raise ValueError(f"There must be one label an example. Received labels of {y.shape}.")
        y = tf.cast(tf.reshape(y, [-1]), tf.int32)
        real = _real_choices(x)
        known = tf.reduce_any((y[:, tf.newaxis] == tf.range(tf.shape(real)[1])) & real, axis=1)
        message = "A label is the number of a choice that is there. Received:"
        with tf.control_dependencies(assertions(known, message, y)):
            return tf.identity(y)

    def check_labels(self, y=None):
        if y is None:
            return
        y = np.asarray(y)
        if y.dtype.kind not in "iu" or y.ndim not in (1, 2) or y.size != len(y):
            raise ValueError(
                "There must be one label an example, the number of the right choice. Received "
                f"labels: {y.dtype} of {y.shape}"
            )

    def read_columns(self, x, y=None):
        y = None if y is None else np.asarray(y)
        # Lists without a string in them are seen by their name alone.
        is_text = self._is_raw(x) or (isinstance(x, dict) and "text_b" in x)
        return (self._read_choices(x) if is_text else x), y

    def _read_choices(self, x):
        """Columns of texts as ids, numpy int32 (B, C, L); a dataset of texts as it is."""
        given = inputs_of(x)
        is_dataset = given is not x
        known = isinstance(given, dict) and set(given) == {"text_a", "text_b"}
        if known and is_dataset:
            known = [given[name].shape.rank for name in ("text_a", "text_b")] == [1, 2]
        if not known:
            raise ValueError(
                "Texts to choose among are a dict of `text_a`, a list of strings, and `text_b`, a "
                "list of lists of strings; or a dataset of batches of such, (batch,) and (batch, "
                f"choices). Received: {given!r:.200}"
            )
        return x if is_dataset else self._read_columns(x["text_a"], x["text_b"])

    def _read_columns(self, texts, choices):
        for number, row in enumerate(choices):
            if isinstance(row, (str, bytes)):
                raise ValueError(
                    f"`text_b` must hold a list of choices for each text. Item {number} is: {row!r}"
                )
        choices = [list(row) for row in choices]
        width = max(map(len, choices), default=0)
        flat = [text for row in choices for text in (*row, *[""] * (width - len(row)))]
        texts = text_columns({"text_a": texts})["text_a"]
        flat = text_columns({"text_b": flat})["text_b"]
        if len(texts) != len(choices):
            raise ValueError(
                f"There must be a list of choices for each text. Received {len(texts)} texts "
                f"and {len(choices)} lists."
            )
        read = self.read_texts((texts, flat.reshape(len(texts), width)))
        return {name: rows.numpy() for name, rows in read.items()}

    def read_texts(self, texts):
        texts, choices = (texts["text_a"], texts["text_b"]) if isinstance(texts, dict) else texts
        texts, choices = tf.convert_to_tensor(texts), tf.convert_to_tensor(choices)
        count = tf.shape(choices)[1]
        pairs = {"text_a": tf.repeat(texts, count), "text_b": tf.reshape(choices, [-1])}
        is_choice = tf.reshape(pairs["text_b"] != "", [-1, 1])
        return {
            name: tf.reshape(
                tf.where(is_choice, rows, 0),
                [tf.shape(choices)[0], count, rows.shape[1] or tf.shape(rows)[1]],
            )
            for name, rows in self.preprocessor(pairs).items()
        }

    def prepare_batch(self, x, y=None, sample_weight=None):
        if holds_text(x):
            x = self.read_texts(x)
        return super().prepare_batch(x, y, sample_weight)

    def choose(self, x, batch_size: int | None = None) -> list[dict]:
        """Chooses among the choices of each text.

        Args:
            x: texts or ids, as `predict` takes them; no dataset.
            batch_size: examples a batch, 32 by default.

        Returns:
            A dict for each text: `choice`, the number of the best one, from 0; `probability`, its
            own; and `probabilities`, a list of those of all choices. Where there are none, they are
            -1, 0 and an empty list.

        Raises:
            ValueError: if `x` is a dataset.
        """
        if isinstance(x, tf.data.Dataset):
            raise ValueError(
                "`choose` takes columns, such as a dict of `text_a` and `text_b`, and received a "
                "dataset: use `predict`."
            )
        x, _ = self.read_columns(x)
        logits = self.predict(x, batch_size=batch_size, verbose=0)
        answers = []
        for row, real in zip(logits, _real_choices(x).numpy(), strict=True):
            shares = np.zeros(len(row))
            shares[real] = tf.nn.softmax(row[real].astype(np.float64)).numpy()
            count = int(np.flatnonzero(real).max(initial=-1)) + 1
            best = int(shares.argmax()) if count else -1
            answers.append(
                {
                    "choice": best,
                    "probability": float(shares[best]) if count else 0.0,
                    "probabilities": shares[:count].tolist(),
                }
            )
        return answers

    def serve(self, ids):
        logits = self(ids, training=False)
        real = _real_choices(ids)
        shares = tf.nn.softmax(masked_logits(logits, real))
        best = tf.argmax(shares, axis=-1, output_type=tf.int32)
        return {
            "choice": tf.where(tf.reduce_any(real, axis=-1), best, -1),
            "probabilities": tf.where(real, shares, 0.0),
            "logits": logits,
        }

    def signatures(self):
        found = super().signatures()
        if "serving_default" in found:
            function, (text, _) = found["serving_default"]
            choices = tf.TensorSpec((None, None), tf.string, "text_b")
            found["serving_default"] = (function, [text, choices])
        return found

    @classmethod
    def preset_arguments(cls, folder, classes, given):
        given = dict(given)
        if folder.path is not None:
            given.setdefault("dropout", head_dropout(folder))
        reason = None
        if classes is not None:
            reason = of_another_class(folder, cls.architecture)
            if classes != 1:
                reason = reason or f"the classifier there has {classes} outputs"
        return given, {"classifier": reason} if classes is None or reason else {}

    def preset_settings(self):
        return {"classifier_dropout": self.dropout_rate}

    def get_config(self):
        return super().get_config() | {"dropout": self.dropout_rate}


def _real_choices(x):
    """Which choices are there, bool (B, C): those with a token that is no padding."""
    return tf.reduce_any(x["padding_mask"] > 0, axis=-1)
