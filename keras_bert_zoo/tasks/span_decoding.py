"""Logits of windows to the answers of questions, cut from the original text.

The rules are those of Devlin et al. 2019 (arXiv 1810.04805, sections 4.2 and 4.3) and of
`write_predictions` of google-research/bert, with one difference: candidates are the best spans of
all that are allowed, not those among the best starts and ends of the whole row, which may be none.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from keras_bert_zoo.text.windows import QuestionWindows


@dataclasses.dataclass(frozen=True)
class AnswerSpan:
    """A candidate: `text` is `context[start:end]`; "" from 0 to 0 for no answer."""

    text: str
    start: int
    end: int
    start_logit: float
    end_logit: float
    probability: float

    @property
    def score(self) -> float:
        """The sum of the two logits."""
        return self.start_logit + self.end_logit


@dataclasses.dataclass(frozen=True)
class QuestionAnswers:
    """The candidates for the answer of a question, best first.

    Attributes:
        n_best: the candidates, no two of the same text, at least one. Their probabilities are a
            softmax over their scores.
        null: no answer, with the logits at `[CLS]` of the window where their sum is smallest. It
            is one of `n_best` if the decoder was asked for it, or if there is no other candidate;
            its probability is 0 else.
    """

    n_best: Sequence[AnswerSpan]
    null: AnswerSpan

    @property
    def null_score(self) -> float:
        """The sum of the two logits at `[CLS]`, the smallest of all windows."""
        return self.null.score

    @property
    def best(self) -> AnswerSpan | None:
        """The best candidate that is an answer; `None` if there is none."""
        return next((span for span in self.n_best if span.text), None)

    @property
    def null_odds(self) -> float:
        """`null_score` less the score of the best answer, 0 for none: large if none is likely."""
        return self.null_score - (self.best.score if self.best else 0.0)

    def answer(self, null_threshold: float | None = None) -> AnswerSpan:
        """What to answer.

        Args:
            null_threshold: above these `null_odds` the answer is none; `None` to answer anyway.
        """
        best = self.best
        if best is not None and (null_threshold is None or self.null_odds <= null_threshold):
            return best
        return self.null


class SpanDecoder:
    """Collects candidates from the windows of questions, in any order, batch by batch.

    A candidate lies among the tokens of the passage, starts in the window in which its first token
    has most context, and has at most `max_answer_tokens` tokens.

    Args:
        windows: the windows.
        n_best_size: most candidates a question, not counting no answer.
        max_answer_tokens: most tokens of an answer.
        null: whether "" is a candidate, with the logits at `[CLS]`, as for SQuAD 2.0.
    """

    def __init__(
        self,
        windows: QuestionWindows,
        n_best_size: int = 20,
        max_answer_tokens: int = 30,
        null: bool = False,
    ):
        if n_best_size < 1 or max_answer_tokens < 1:
            raise ValueError(
                "`n_best_size` and `max_answer_tokens` must be at least 1. Received: "
                f"n_best_size={n_best_size}, max_answer_tokens={max_answer_tokens}"
            )
        self.windows = windows
        self.n_best_size = n_best_size
        self.max_answer_tokens = max_answer_tokens
        self.null = null
        self._null_logits = np.full([len(windows), 2], np.nan)
        # Columns of windows, first places, last places, and their logits.
        self._found = [(np.zeros([3, 0], np.int64), np.zeros([2, 0]))]

    def add(self, numbers: np.ndarray, outputs) -> None:
        """Takes what the task gives for some windows.

        Args:
            numbers: int (B,), the windows.
            outputs: a dict of `start_logits` and `end_logits`, float (B, L), padded or not.

        Raises:
            ValueError: if logits are NaN or infinite.
        """
        starts, ends = (
            np.asarray(outputs[name], np.float64) for name in ("start_logits", "end_logits")
        )
        may_start, passage = self.windows.may_answer(numbers, starts.shape[1])
        self._null_logits[numbers] = np.stack([starts[:, 0], ends[:, 0]], axis=1)
        seen = (starts[passage], ends[passage], self._null_logits[numbers])
        if not all(np.isfinite(part).all() for part in seen):
            raise ValueError("Logits of answers are NaN or infinite: has training diverged?")
        starts = np.where(may_start, starts, -np.inf)
        ends = np.where(passage, ends, -np.inf)
        rows, first, further = _best_of_band(starts, ends, self.max_answer_tokens, self.n_best_size)
        last = first + further
        self._found.append(
            (
                np.stack([numbers[rows], first, last]),
                np.stack([starts[rows, first], ends[rows, last]]),
            )
        )

    def answers(self) -> list[QuestionAnswers]:
        """The candidates of every question, once all windows have been added."""
        missing = np.isnan(self._null_logits[:, 0])
        if missing.any():
            raise ValueError(f"{missing.sum()} of {len(missing)} windows have not been added.")
        windows = self.windows
        spans, logits = (np.concatenate(part, axis=1) for part in zip(*self._found, strict=True))
        owners = windows.question_numbers[spans[0]]
        # Best first, and of equal ones the first in the text.
        order = np.lexsort((spans[2], spans[1], spans[0], -logits.sum(axis=0), owners))
        spans, logits, owners = spans[:, order], logits[:, order], owners[order]
        char_starts, char_ends = windows.characters(*spans)
        count = len(windows.passage_numbers)
        bounds = np.searchsorted(owners, np.arange(count + 1))
        window_bounds = np.searchsorted(windows.question_numbers, np.arange(count + 1))
        answers = []
        for number, passage in enumerate(windows.passage_numbers):
            of_windows = self._null_logits[window_bounds[number] : window_bounds[number + 1]]
            null = of_windows[of_windows.sum(axis=1).argmin()]
            here = slice(bounds[number], bounds[number + 1])
            answers.append(
                self._n_best(
                    windows.passages.texts[passage],
                    zip(char_starts[here], char_ends[here], *logits[:, here], strict=True),
                    null,
                )
            )
        return answers

    def _n_best(self, context, candidates, null) -> QuestionAnswers:
        found = {}
        for start, end, *logits in candidates:
            if len(found) == self.n_best_size:
                break
            found.setdefault(context[start:end], (int(start), int(end), *map(float, logits)))
        none = (0, 0, *map(float, null))
        if self.null or not found:
            found[""] = none
        scores = np.array([sum(fields[2:]) for fields in found.values()])
        shares = np.exp(scores - scores.max())
        shares /= shares.sum()
        spans = {
            text: AnswerSpan(text, *fields, float(share))
            for (text, fields), share in zip(found.items(), shares, strict=True)
        }
        best_first = sorted(spans.values(), key=lambda span: -span.score)
        return QuestionAnswers(tuple(best_first), spans.get("", AnswerSpan("", *none, 0.0)))


def best_spans(start_logits, end_logits, allowed, max_tokens: int):
    """Finds the span of each row whose logits, of its first and its last token, sum up highest.

    It is what an exported model does, in graph.

    Args:
        start_logits, end_logits: float32 (B, L).
        allowed: bool (B, L): where a span may start and end.
        max_tokens: most tokens of a span.

    Returns:
        `(start, end, score)`: int32 (B,), int32 (B,), float32 (B,). A row in which nothing is
        allowed has the span of its first place.
    """
    batch, length = tf.unstack(tf.shape(start_logits))
    starts = tf.where(allowed, start_logits, -np.inf)
    ends = tf.where(allowed, end_logits, -np.inf)
    # By start and further tokens: a band of the square of all spans.
    ends = tf.pad(ends, [[0, 0], [0, max_tokens - 1]], constant_values=-np.inf)
    reach = tf.range(length)[:, tf.newaxis] + tf.range(max_tokens)
    sums = starts[:, :, tf.newaxis] + tf.gather(ends, reach, axis=1)
    sums = tf.reshape(sums, [batch, length * max_tokens])
    best = tf.argmax(sums, axis=1, output_type=tf.int32)
    found = tf.reduce_any(allowed, axis=1)
    return (
        tf.where(found, best // max_tokens, 0),
        tf.where(found, best // max_tokens + best % max_tokens, 0),
        tf.where(found, tf.reduce_max(sums, axis=1), start_logits[:, 0] + end_logits[:, 0]),
    )


def _best_of_band(starts, ends, reach: int, count: int):
    """The spans of each row whose two logits sum up highest.

    Args:
        starts, ends: float (B, L), -inf where nothing may start or end.
        reach: most tokens of a span.
        count: most spans a row.

    Returns:
        Rows, first places, and how much further the last places are; int (k,) each.
    """
    padded = np.pad(ends, [(0, 0), (0, reach - 1)], constant_values=-np.inf)
    band = np.lib.stride_tricks.sliding_window_view(padded, reach, axis=1)
    sums = (starts[:, :, None] + band).reshape(len(starts), -1)
    best = np.broadcast_to(np.arange(sums.shape[1]), sums.shape)
    if sums.shape[1] > count:
        best = np.argpartition(-sums, count - 1, axis=1)[:, :count]
    rows, column = np.nonzero(np.isfinite(np.take_along_axis(sums, best, axis=1)))
    best = best[rows, column]
    return rows, best // reach, best % reach
