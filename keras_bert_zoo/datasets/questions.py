"""Questions to windows of ids, and the windows' outputs to answers, files and scores."""

import dataclasses
import json
import os
import pathlib
from collections.abc import Mapping, Sequence

import keras
import numpy as np

from keras_bert_zoo.datasets.pipeline import EncodedExamples
from keras_bert_zoo.datasets.squad import Question
from keras_bert_zoo.metrics.squad import best_threshold, score_squad
from keras_bert_zoo.tasks.span_decoding import QuestionAnswers, SpanDecoder
from keras_bert_zoo.text.windows import QuestionWindows, question_windows


@dataclasses.dataclass(frozen=True)
class EncodedQuestions:
    """Questions as windows of ids.

    Attributes:
        questions: the questions.
        windows: their windows.
        examples: the windows as `QuestionAnswering` is trained on them. The targets are the places
            of each question's first gold answer: those of its first and last token, `[CLS]` in a
            window that does not hold all of it, or if there is no answer; -1, which takes no part
            in training, if the file does not tell, or no token stands for the answer. `None` if
            the file tells of no question.
        inexact: id, gold answer, and what the tokens give, of each question whose first gold
            answer does not start and end with tokens; all but those that give "" are trained on.
        outside: id of each question whose first gold answer lies wholly in none of its windows,
            which are all trained on as without an answer. A smaller stride helps.
    """

    questions: Sequence[Question]
    windows: QuestionWindows
    examples: EncodedExamples
    inexact: Sequence[tuple[str, str, str]]
    outside: Sequence[str]

    def answers(
        self,
        task: keras.Model,
        batch_size: int = 32,
        n_best_size: int = 20,
        max_answer_tokens: int | None = None,
        null: bool = False,
        verbose="auto",
    ) -> dict[str, QuestionAnswers]:
        """Asks a task all questions.

        Args:
            task: a `QuestionAnswering`.
            batch_size: windows a batch.
            n_best_size, null: as `SpanDecoder` takes them.
            max_answer_tokens: most tokens of an answer; by default those of the task.
            verbose: as `EncodedExamples.outputs` takes it.

        Returns:
            The candidates by question id, in the order of the questions.
        """
        longest = task.max_answer_tokens if max_answer_tokens is None else max_answer_tokens
        decoder = SpanDecoder(self.windows, n_best_size, longest, null)
        for numbers, outputs in self.examples.outputs(task, batch_size, verbose):
            decoder.add(numbers, outputs)
        ids = [question.id for question in self.questions]
        return dict(zip(ids, decoder.answers(), strict=True))


def encode_questions(
    questions: Sequence[Question],
    tokenizer,
    sequence_length: int = 384,
    stride: int = 128,
    max_query_length: int = 64,
    length: int | None = None,
) -> EncodedQuestions:
    """Turns questions into windows of ids.

    Args:
        questions: what `read_squad` gives.
        tokenizer, sequence_length, stride, max_query_length: as `question_windows` takes them.
        length: the length that all rows are padded to; `None` for the longest of each batch.

    Raises:
        ValueError: as `question_windows`.
    """
    questions = tuple(questions)
    windows = question_windows(
        tokenizer,
        [question.question for question in questions],
        [question.context for question in questions],
        sequence_length,
        stride,
        max_query_length,
    )
    targets, inexact, outside = _targets(questions, windows)
    examples = EncodedExamples(windows.features, targets, length=length)
    return EncodedQuestions(questions, windows, examples, inexact, outside)


def predicted_texts(
    answers: Mapping[str, QuestionAnswers], null_threshold: float | None = None
) -> dict[str, str]:
    """The answer to each question, "" above `null_threshold`; see `QuestionAnswers.answer`."""
    return {key: found.answer(null_threshold).text for key, found in answers.items()}


def score_answers(
    gold: Mapping[str, Sequence[str]],
    answers: Mapping[str, QuestionAnswers],
    null_threshold: float | None = None,
    version: str | None = None,
) -> dict[str, float]:
    """The official scores, by `keras_bert_zoo.metrics.squad.score_squad`.

    Args:
        gold: the texts of the gold answers by question id, as `read_gold` gives them.
        answers: what was found.
        null_threshold: above these `null_odds` the answer is none; `None` to answer anyway. With
            one the scorer is that of 2.0, and gives the best scores of all thresholds too.
        version: of the scorer, as `score_squad` takes it.
    """
    texts = predicted_texts(answers)
    if null_threshold is None:
        return score_squad(gold, texts, version)
    odds = {key: found.null_odds for key, found in answers.items()}
    return score_squad(gold, texts, "2.0", odds, null_threshold)


def tuned_null_threshold(
    gold: Mapping[str, Sequence[str]], answers: Mapping[str, QuestionAnswers], metric: str = "f1"
) -> float:
    """A threshold of `null_odds` that gives the best score.

    `metrics.squad.best_threshold` gives the odds of the last question to answer. This lies halfway
    from there to the next ones, so that rounding decides nothing; below all odds if it is best to
    answer nothing, and above all of them if every question is to be answered.
    """
    odds = {key: found.null_odds for key, found in answers.items()}
    best, threshold = best_threshold(gold, predicted_texts(answers), odds, metric)
    silent = sum(not texts for texts in gold.values())
    if best == 100.0 * silent / len(gold):
        return min(odds.values()) - 1.0
    return (threshold + min((o for o in odds.values() if o > threshold), default=threshold + 2)) / 2


def write_predictions(
    folder: str | os.PathLike,
    answers: Mapping[str, QuestionAnswers],
    null_threshold: float | None = None,
) -> list[pathlib.Path]:
    """Writes the files that `run_squad.py` of google-research/bert writes.

    `predictions.json` has the answer of each id; `nbest_predictions.json` its candidates with
    `text`, `probability`, `start_logit`, `end_logit`; with a threshold, `null_odds.json` has its
    `null_odds`, what the official scorer takes as `--na-prob-file`.

    Returns:
        The files.
    """
    fields = ("text", "probability", "start_logit", "end_logit")
    content = {
        "predictions": predicted_texts(answers, null_threshold),
        "nbest_predictions": {
            key: [{field: getattr(span, field) for field in fields} for span in found.n_best]
            for key, found in answers.items()
        },
    }
    if null_threshold is not None:
        content["null_odds"] = {key: found.null_odds for key, found in answers.items()}
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for name, values in content.items():
        files.append(folder / f"{name}.json")
        text = json.dumps(values, indent=2, ensure_ascii=False)
        files[-1].write_text(f"{text}\n", encoding="utf-8", newline="\n")
    return files


def _targets(questions, windows):
    """Targets of the windows, or `None`; and the lists of what is not quite so."""
    asked = np.array([bool(question.answers) for question in questions])
    known = asked | np.array([question.is_impossible for question in questions])
    if not known.any():
        return None, (), ()
    firsts = [question.answers[0] if question.answers else ("", 0) for question in questions]
    starts = np.array([start for _, start in firsts])
    ends = starts + np.array([len(text) for text, _ in firsts])
    passages = windows.passages
    tokens = passages.tokens_at(windows.passage_numbers, starts, ends)
    tokens = [np.where(asked, token, -1) for token in tokens]
    found = tokens[0] >= 0
    base = passages.splits[windows.passage_numbers]
    inexact = []
    for number in np.flatnonzero(asked):
        question, given = questions[number], ""
        if found[number]:
            first, last = (base[number] + token[number] for token in tokens)
            given = question.context[passages.char_starts[first] : passages.char_ends[last]]
        if given != question.answers[0][0]:
            inexact.append((question.id, question.answers[0][0], given))
    places = windows.places(*tokens)
    whole = np.zeros(len(questions), bool)
    whole[windows.question_numbers[places[0] > 0]] = True
    outside = tuple(questions[number].id for number in np.flatnonzero(found & ~whole))
    takes_part = (known & (found | ~asked))[windows.question_numbers]
    names = ("start_positions", "end_positions")
    targets = {n: np.where(takes_part, c, -1) for n, c in zip(names, places, strict=True)}
    return targets, tuple(inexact), outside
