"""Finding the answer to a question in a text."""

from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf

from keras_bert_zoo.encoders.transformer import TransformerEncoder, encoder_inputs
from keras_bert_zoo.tasks.base import Task
from keras_bert_zoo.tasks.heads import (
    dense_head,
    example_weights,
    masked_logits,
    pad_rows,
    word_places,
)
from keras_bert_zoo.tasks.inputs import holds_text
from keras_bert_zoo.tasks.labels import assertions
from keras_bert_zoo.tasks.span_decoding import SpanDecoder, best_spans
from keras_bert_zoo.tasks.step import same_class, weighed
from keras_bert_zoo.text.preprocessor import TextPreprocessor
from keras_bert_zoo.text.windows import question_windows

TARGETS = ("start_positions", "end_positions")


@keras.saving.register_keras_serializable(package="keras_bert_zoo")
class QuestionAnswering(Task):
    """Says where in a text the answer to a question starts and ends (1810.04805, section 4.2).

    `W sequence_output + b` at every place, two numbers, without dropout. Inputs are pairs of a
    question and the text. Outputs are a dict of `start_logits` and `end_logits`, float32 (B, L),
    which are raw at padding too.

    Targets are a dict of `start_positions` and `end_positions`, int (B,): the places, among the
    tokens of the row, of the answer's first and last token; 0, that of `[CLS]`, for a question
    without an answer. An example with a negative one takes no part. The loss is the mean of the
    two cross-entropies, each over all real tokens; the score, `exact_span`, the share of examples
    with both places right. Since places are those of tokens, training takes ids.

    `answer` takes questions and texts of any length, which it reads through windows, and cuts the
    answers from the texts. `keras_bert_zoo.datasets.questions` makes rows to train on of files.

    An exported model returns `start`, `end`, int32 (B,), and `score`, float32 (B,), of the span in
    the text with the largest sum of its two logits; `null_score`, the same sum at `[CLS]`; and the
    logits. A row without a second text has the span of `[CLS]`.

    Args:
        encoder: the encoder.
        preprocessor: a `TextPreprocessor`, for `predict` and `export`; `None` if ids will be fed.
        max_answer_tokens: most tokens of an answer.
        null_threshold: for models that were trained on questions without an answer: `answer` gives
            none where the score at `[CLS]` exceeds that of the best span by more than this, such as
            `tuned_null_threshold` has found. `None` to answer anyway. It may be set later.

    Raises:
        ValueError: if `max_answer_tokens` is no whole number from 1 on.

    Example:

    ```python
    task = kbz.QuestionAnswering(encoder, preprocessor=preprocessor)
    task.compile(kbz.adamw(3e-5, total_steps=300, warmup_steps=30), clip_norm=1.0)
    ids = preprocessor((["what is fine ?"], ["tea is fine ."]))
    task.fit(ids, {"start_positions": np.array([6]), "end_positions": np.array([6])})
    task.answer(question="what is fine ?", context="Tea is fine.")["text"]
    ```
    """

    architecture = "BertForQuestionAnswering"
    reads_pooler = False

    def __init__(
        self,
        encoder: TransformerEncoder,
        preprocessor: TextPreprocessor | None = None,
        max_answer_tokens: int = 30,
        null_threshold: float | None = None,
        **kwargs,
    ):
        if not isinstance(max_answer_tokens, int) or max_answer_tokens < 1:
            raise ValueError(
                f"`max_answer_tokens` must be a whole number from 1. Received: {max_answer_tokens}"
            )
        inputs = encoder_inputs(encoder.sequence_length)
        vectors = encoder(inputs)["sequence_output"]
        logits = dense_head(encoder, vectors, 2, name="span_logits")
        super().__init__(
            encoder,
            preprocessor,
            inputs,
            {"start_logits": logits[:, :, 0], "end_logits": logits[:, :, 1]},
            score_names=("exact_span",),
            **({"pair": True} | kwargs),
        )
        self.max_answer_tokens = max_answer_tokens
        self.null_threshold = None if null_threshold is None else float(null_threshold)

    def compile(self, optimizer="adam", clip_norm=None, loss=None, **kwargs):
        if loss is not None:
            raise ValueError(
                f"The loss of {type(self).__name__} is that of two places and cannot be replaced. "
                f"Received: loss={loss!r}"
            )
        super().compile(optimizer, clip_norm, **kwargs)

    compile.__doc__ = Task.compile.__doc__

    def loss_terms(self, x, y, outputs, sample_weight):
        (starts, ends), weights = self._places(x, y, sample_weight)
        losses = [
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=places, logits=logits)
            for places, logits in zip((starts, ends), _visible(x, outputs), strict=True)
        ]
        return {"loss": weighed((losses[0] + losses[1]) / 2, weights)}

    def score_terms(self, x, y, outputs, sample_weight):
        (starts, ends), weights = self._places(x, y, sample_weight)
        start_logits, end_logits = _visible(x, outputs)
        hits = same_class(start_logits, starts) * same_class(end_logits, ends)
        return {"exact_span": weighed(hits, weights)}

    def _places(self, x, y, sample_weight):
        """The two columns of places, int32 (B,), 0 where there is none; and weights (B,)."""
        self._check_targets(y)
        columns = [tf.cast(tf.reshape(y[name], [-1]), tf.int32) for name in TARGETS]
        takes_part = (columns[0] >= 0) & (columns[1] >= 0)
        places = tf.range(tf.shape(x["padding_mask"])[1])
        checks = []
        for name, column in zip(TARGETS, columns, strict=True):
            at_place = (column[:, tf.newaxis] == places) & (x["padding_mask"] > 0)
            known = tf.reduce_any(at_place, axis=-1) | ~takes_part
            # A cross-entropy elsewhere would be some 1e9, or NaN.
            message = f"`{name}` must lie among the row's tokens, or be negative. Received:"
            checks += assertions(known, message, column)
        with tf.control_dependencies(checks):
            columns = [tf.where(takes_part, column, 0) for column in columns]
        weights = tf.cast(takes_part, tf.float32)
        if isinstance(sample_weight, dict):
            # Keras copies the weights of the examples for each target.
            sample_weight = sample_weight[TARGETS[0]]
        return columns, weights * example_weights(weights, sample_weight)

    def _check_targets(self, y):
        if not isinstance(y, dict) or not set(TARGETS) <= set(y):
            raise ValueError(
                f"{self.name} is trained on ids with a dict of `start_positions` and "
                f"`end_positions` as targets. Received targets: {y!r:.200}"
            )

    def read_columns(self, x, y=None):
        if y is not None:
            self._check_targets(y)
            y = {name: np.asarray(y[name]) for name in TARGETS}
        return x, y

    def check_labels(self, y=None):
        for name, column in (y or {}).items():
            is_column = column.ndim == 1 or (column.ndim == 2 and column.shape[1] == 1)
            if column.dtype.kind not in "iu" or not is_column:
                raise ValueError(
                    f"`{name}` must be one whole number an example. Received: {column.dtype} of "
                    f"{column.shape}"
                )

    def _is_raw(self, x, y=None):
        raw = super()._is_raw(x, y)
        if raw and y is not None:
            raise ValueError(
                f"{self.name} is trained on ids, since the places of answers are those of tokens, "
                "and texts were given: pass `task.preprocessor((questions, texts))`."
            )
        return raw

    def prepare_batch(self, x, y=None, sample_weight=None):
        if holds_text(x):
            # Outputs are as long as the rows, and those of all batches have to be of one length.
            length = self.preprocessor.sequence_length
            x = pad_rows(self.preprocessor(x), length, self.tokenizer.pad_id)
        return super().prepare_batch(x, y, sample_weight)

    def answer(
        self,
        question: str | Sequence[str],
        context: str | Sequence[str],
        stride: int = 128,
        max_query_length: int | None = None,
        n_best_size: int = 20,
        batch_size: int = 32,
    ) -> dict | list[dict]:
        """Answers questions from texts of any length.

        Args:
            question: a question, or several.
            context: the text that holds the answer; or one for each question.
            stride: tokens from one window of a long text to the next.
            max_query_length: most tokens of a question; by default 64, or half of what a row of
                the preprocessor holds if that is less.
            n_best_size: how many candidates `probability` is a share among.
            batch_size: windows a batch.

        Returns:
            For a question a dict, else a list of them: `text`, the answer, which is
            `context[start:end]`; `start` and `end`; `score`, the sum of its two logits; and
            `probability`, a softmax over the scores of the best candidates. `text` is "" and both
            places are 0 where there is no answer: above `null_threshold`, or in an empty text.

        Raises:
            ValueError: if the task has no preprocessor, questions or texts are not strings or not
                equally many, or as `question_windows`.
        """
        if self.preprocessor is None:
            raise ValueError(
                f"{self.name} has no preprocessor, so it cannot read texts: make it with "
                "`preprocessor=keras_bert_zoo.TextPreprocessor(...)`."
            )
        single = isinstance(question, str) and isinstance(context, str)
        columns = {"question": question, "context": context}
        if single:
            columns = {name: [text] for name, text in columns.items()}
        for name, column in columns.items():
            lists = not isinstance(column, str) and hasattr(column, "__iter__")
            if not lists or not all(isinstance(text, str) for text in column):
                raise ValueError(
                    "`question` and `context` must be two strings, or two lists of strings. "
                    f"Received `{name}`: {column!r:.200}"
                )
        questions, contexts = map(list, columns.values())
        if not questions and not contexts:
            return []
        length = self.preprocessor.sequence_length
        windows = question_windows(
            self.tokenizer,
            questions,
            contexts,
            length,
            stride,
            min(64, (length - 3) // 2) if max_query_length is None else max_query_length,
        )
        null = self.null_threshold is not None
        decoder = SpanDecoder(windows, n_best_size, self.max_answer_tokens, null)
        width = self.input["token_ids"].shape[1]
        width = width or -(-int(windows.features["token_ids"].bounding_shape()[1]) // 8) * 8
        padded = {
            name: rows.to_tensor(shape=[None, width]) for name, rows in windows.features.items()
        }
        decoder.add(np.arange(len(windows)), self.predict(padded, batch_size, verbose=0))
        answers = [found.answer(self.null_threshold) for found in decoder.answers()]
        fields = ("text", "start", "end", "score", "probability")
        answers = [{field: getattr(span, field) for field in fields} for span in answers]
        return answers[0] if single else answers

    @classmethod
    def usual_length(cls, folder):
        return 384  # As for SQuAD in google-research/bert.

    def serve(self, ids):
        outputs = self(ids, training=False)
        logits = outputs["start_logits"], outputs["end_logits"]
        in_text = word_places(ids) & (ids["segment_ids"] == 1)
        start, end, score = best_spans(*logits, in_text, self.max_answer_tokens)
        null_score = logits[0][:, 0] + logits[1][:, 0]
        return {"start": start, "end": end, "score": score, "null_score": null_score, **outputs}

    def get_config(self):
        return super().get_config() | {
            "max_answer_tokens": self.max_answer_tokens,
            "null_threshold": self.null_threshold,
        }


def _visible(x, outputs):
    """The two rows of logits, hidden at padding."""
    real = x["padding_mask"] > 0
    return [masked_logits(outputs[name], real) for name in ("start_logits", "end_logits")]
