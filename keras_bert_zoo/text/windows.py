"""A question and its passage to rows of an encoder: a long passage is read through windows.

Devlin et al. 2019, arXiv 1810.04805, appendix and `run_squad.py` of google-research/bert.
"""

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from keras_bert_zoo.text.passages import Passages, token_rows

_CHUNK = 8192  # Windows that are packed together.


@dataclasses.dataclass(frozen=True)
class QuestionWindows:
    """Rows `[CLS] question [SEP] part of the passage [SEP]`, those of a question one after another.

    Attributes:
        features: `token_ids`, `segment_ids`, `padding_mask`, int32 ragged (n, None), no padding.
        question_numbers: int64 (n,), ascending: the question that each window is of.
        first_places: int64 (n,): the place in the row of the first token of the passage.
        first_tokens: int64 (n,): the number of that token among all of the passage.
        lengths: int64 (n,): tokens of the passage in the window.
        passages: the passages, each distinct one once.
        passage_numbers: int64 (questions,): the passage of each question.
    """

    features: dict[str, tf.RaggedTensor]
    question_numbers: np.ndarray
    first_places: np.ndarray
    first_tokens: np.ndarray
    lengths: np.ndarray
    passages: Passages
    passage_numbers: np.ndarray

    def __len__(self):
        return len(self.question_numbers)

    @functools.cached_property
    def most_context(self) -> np.ndarray:
        """Whether a window is the one in which a token has most context; bool (sum(lengths),).

        For all tokens of the passage in the first window, then in the second, and so on. Context
        is the smaller number of tokens to either side, and a hundredth of the window's length;
        where it is equal, the earlier window has it.
        """
        most = np.ones(self.lengths.sum(), bool)
        ends = self.first_tokens + self.lengths
        flat = np.cumsum(self.lengths) - self.lengths - self.first_tokens
        for distance in range(1, len(self)):
            # Windows that share tokens with the one so much later: from its start to their end.
            first = np.arange(len(self) - distance)
            second = first + distance
            shared = (self.question_numbers[first] == self.question_numbers[second]) & (
                self.first_tokens[second] < ends[first]
            )
            first, second = first[shared], second[shared]
            if not len(first):
                break
            pair, place = positions(ends[first] - self.first_tokens[second])
            token = self.first_tokens[second][pair] + place
            first, second = first[pair], second[pair]
            later = self._context(second, token) > self._context(first, token)
            most[(flat[first] + token)[later]] = False
            most[(flat[second] + token)[~later]] = False
        return most

    def _context(self, windows, tokens):
        left = tokens - self.first_tokens[windows]
        right = self.lengths[windows] - 1 - left
        return np.minimum(left, right) + 0.01 * self.lengths[windows]

    def may_answer(self, numbers: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
        """Where in the rows of some windows an answer may start, and where it may lie.

        Args:
            numbers: int (B,), the windows.
            width: L, places a row.

        Returns:
            Two bool arrays (B, L): tokens of the passage that have most context here, and all
            tokens of the passage.
        """
        place = np.arange(width) - self.first_places[numbers][:, None]
        passage = (place >= 0) & (place < self.lengths[numbers][:, None])
        first = (np.cumsum(self.lengths) - self.lengths)[numbers][:, None]
        starts = np.zeros_like(passage)
        starts[passage] = self.most_context[(first + place)[passage]]
        return starts, passage

    def characters(self, numbers, starts, ends) -> tuple[np.ndarray, np.ndarray]:
        """Where spans stand in their passages: `text[start:end]`.

        Args:
            numbers: int (k,), windows.
            starts, ends: int (k,), places in their rows, of tokens of the passage, of the first
                and the last token of each span.

        Returns:
            Two int64 arrays (k,).
        """
        passage = self.passage_numbers[self.question_numbers[numbers]]
        base = self.passages.splits[passage] + self.first_tokens[numbers]
        base = base - self.first_places[numbers]
        return self.passages.char_starts[base + starts], self.passages.char_ends[base + ends]

    def places(self, first_tokens, last_tokens) -> tuple[np.ndarray, np.ndarray]:
        """The places of spans in every window: 0, that of `[CLS]`, where it is not wholly inside.

        Args:
            first_tokens, last_tokens: int (questions,), numbers among the tokens of the passage;
                negative ones are in no window.

        Returns:
            Two int32 arrays (n,).
        """
        first = np.asarray(first_tokens)[self.question_numbers] - self.first_tokens
        last = np.asarray(last_tokens)[self.question_numbers] - self.first_tokens
        inside = (first >= 0) & (last < self.lengths) & (last >= first)
        return tuple(
            np.where(inside, self.first_places + token, 0).astype(np.int32)
            for token in (first, last)
        )


def question_windows(
    tokenizer,
    questions: Sequence[str],
    contexts: Sequence[str],
    sequence_length: int = 384,
    stride: int = 128,
    max_query_length: int = 64,
) -> QuestionWindows:
    """Cuts questions and their passages into windows.

    Args:
        tokenizer: the tokenizer, with `tokenize_with_spans`, as `WordPieceTokenizer`.
        questions: the questions.
        contexts: the passage of each. Equal ones are tokenized once.
        sequence_length: most tokens of a row, special tokens included.
        stride: tokens from the start of a window to that of the next one; less where a window
            holds less, so that no token is left out.
        max_query_length: most tokens of a question; what is beyond is left out.

    Returns:
        The windows, at least one a question, also where its passage has no tokens.

    Raises:
        ValueError: if there are no questions or not as many passages, or the lengths leave no
            room for a passage.
    """
    check_window_lengths(sequence_length, stride, max_query_length)
    if len(questions) != len(contexts) or not len(questions):
        raise ValueError(
            "There must be a passage for each question, and at least one question. Received: "
            f"{len(questions)} questions and {len(contexts)} passages"
        )
    distinct = {text: number for number, text in enumerate(dict.fromkeys(contexts))}
    passages = Passages.tokenized(tokenizer, list(distinct))
    numbers = np.fromiter((distinct[text] for text in contexts), np.int64, len(contexts))
    question_ids, splits = token_rows(tokenizer, questions)
    kept = np.minimum(np.diff(splits), max_query_length)
    totals = np.diff(passages.splits)[numbers]
    room = sequence_length - 3 - kept
    step = np.minimum(stride, room)
    owner, place = positions(1 + np.maximum(-((room - totals) // step), 0))
    windows = QuestionWindows(
        {},
        question_numbers=owner,
        first_places=kept[owner] + 2,
        first_tokens=place * step[owner],
        lengths=np.minimum(room[owner], totals[owner] - place * step[owner]),
        passages=passages,
        passage_numbers=numbers,
    )
    features = _packed(windows, question_ids, splits, tokenizer.cls_id, tokenizer.sep_id)
    return dataclasses.replace(windows, features=features)


def check_window_lengths(sequence_length: int, stride: int, max_query_length: int) -> None:
    """Raises a ValueError if lengths leave no room for a passage, or a stride is none."""
    if stride < 1 or max_query_length < 1:
        raise ValueError(
            "`stride` and `max_query_length` must be at least 1. Received: "
            f"stride={stride}, max_query_length={max_query_length}"
        )
    if sequence_length <= max_query_length + 3:
        raise ValueError(
            "`sequence_length` must exceed `max_query_length` + 3, or a long question leaves no "
            f"room for the passage. Received: sequence_length={sequence_length}, "
            f"max_query_length={max_query_length}"
        )


def positions(lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The row and the place in it of each entry of rows that lie end to end; int64 both."""
    rows = np.repeat(np.arange(len(lengths)), lengths)
    return rows, np.arange(len(rows)) - (np.cumsum(lengths) - lengths)[rows]


def _packed(windows, question_ids, question_splits, cls_id, sep_id):
    widths = windows.first_places + windows.lengths + 1
    passage_starts = windows.passages.splits[windows.passage_numbers[windows.question_numbers]]
    passage_starts = passage_starts + windows.first_tokens
    ids, segments = [], []
    for chunk in range(0, len(windows), _CHUNK):
        part = slice(chunk, chunk + _CHUNK)
        row, place = positions(widths[part])
        in_passage = place - windows.first_places[part][row]
        packed = np.full(len(row), sep_id, np.int32)
        packed[place == 0] = cls_id
        here = (place > 0) & (in_passage < -1)
        starts = question_splits[windows.question_numbers[part]]
        packed[here] = question_ids[(starts[row] + place - 1)[here]]
        here = (in_passage >= 0) & (in_passage < windows.lengths[part][row])
        packed[here] = windows.passages.token_ids[(passage_starts[part][row] + in_passage)[here]]
        ids.append(packed)
        segments.append((in_passage >= 0).astype(np.int32))
    ids = tf.RaggedTensor.from_row_lengths(np.concatenate(ids), widths)
    return {
        "token_ids": ids,
        "segment_ids": ids.with_values(tf.constant(np.concatenate(segments))),
        "padding_mask": ids.with_values(tf.ones_like(ids.values)),
    }
