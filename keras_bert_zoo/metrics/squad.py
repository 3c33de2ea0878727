"""Exact match and F1 of SQuAD 1.1 and 2.0, equal to the official scorers to the last digit.

python -m keras_bert_zoo.metrics.squad DATA PREDICTIONS [--na_prob_file F] [--na_prob_thresh T]

DATA is a file of SQuAD 1.1 or 2.0, PREDICTIONS a JSON object of question ids and answers, "" for
none. Scores are percentages. The last line printed is JSON. The official scorers are evaluate-v1.1
and evaluate-v2.0 (Rajpurkar et al. 2016, arXiv 1606.05250, and 2018, arXiv 1806.03822).
"""

import argparse
import collections
import os
import re
import string
import warnings
from collections.abc import Mapping, Sequence

from keras_bert_zoo.metrics.programs import read_json, run

VERSIONS = ("1.1", "2.0")
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalize_answer(text: str) -> str:
    """What the official scorers compare of an answer.

    In this order: lower case, ASCII punctuation dropped (neighbours join), the words a, an and the
    blanked, runs of white space made one space. Other punctuation, such as a dash, stays.
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_WITHOUT_PUNCTUATION)).split())


def read_gold(path: str | os.PathLike) -> tuple[dict[str, list[str]], str]:
    """Reads the answers of a SQuAD file.

    Returns:
        The texts of the gold answers by question id, in the order of the file, and the version of
        the scorer to use: "2.0" if the file calls itself so or has questions that are marked or
        left as unanswerable, "1.1" else.

    Raises:
        ValueError: if the file is not of this format; the message says where.
        OSError: if it cannot be read.
    """
    name, content = os.fspath(path), read_json(path)
    gold: dict[str, list[str]] = {}
    version, marked = "", False
    try:
        version = str(content.get("version", ""))
        for article in content["data"]:
            for paragraph in article["paragraphs"]:
                for question in paragraph["qas"]:
                    if question["id"] in gold:
                        raise ValueError(f"{name}: two questions have the id {question['id']!r}.")
                    texts = [answer["text"] for answer in question["answers"]]
                    if not all(isinstance(text, str) for text in texts):
                        raise TypeError(f"answers of {question['id']!r} are not strings")
                    gold[question["id"]] = texts
                    marked |= "is_impossible" in question
    except (AttributeError, KeyError, TypeError) as error:
        last = f"after question {list(gold)[-1]!r}" if gold else "at its beginning"
        raise ValueError(
            f"{name}: not a SQuAD file, {last}. It should be {{'data': [{{'paragraphs': [{{'qas': "
            f"[{{'id': ..., 'answers': [{{'text': ...}}]}}]}}]}}]}}. {error!r}"
        ) from error
    newer = version.lower().lstrip("v").startswith("2") or marked or not all(gold.values())
    return gold, VERSIONS[newer]


def read_mapping(path: str | os.PathLike, kind: type | tuple[type, ...]) -> dict[str, object]:
    """Reads a JSON object of question ids and values of a kind: predictions or probabilities.

    Raises:
        ValueError: if the file is anything else; the message names the id.
        OSError: if it cannot be read.
    """
    name, content = os.fspath(path), read_json(path)
    if not isinstance(content, dict):
        raise ValueError(f"{name}: a JSON object of question ids is needed, not {content!r:.80}.")
    _check_kind(content, kind, name)
    return content


def score_squad(
    gold: Mapping[str, Sequence[str]],
    predictions: Mapping[str, str],
    version: str | None = None,
    na_probs: Mapping[str, float] | None = None,
    na_prob_thresh: float = 1.0,
) -> dict[str, float]:
    """The official scores of predicted answers.

    Args:
        gold: the texts of the gold answers by question id, none for an unanswerable question.
        predictions: the predicted text by question id, "" for no answer. Ids that are not in
            `gold` do not count.
        version: "1.1" or "2.0". By default "2.0" if a question has no answer or `na_probs` are
            given, "1.1" else. On answerable questions alone the two give the same scores, but for
            a missing prediction, and for an answer of which `normalize_answer` leaves nothing.
        na_probs: for 2.0, how probable it is that a question has no answer; any scale will do.
        na_prob_thresh: a question of a higher `na_probs` counts as answered by "".

    Returns:
        "exact_match" and "f1", in percent, and "total", the number of questions. For 2.0 also
        "exact", the name that the official scorer gives to "exact_match", the same for the
        questions with an answer ("HasAns_exact", "HasAns_f1", "HasAns_total") and without one
        ("NoAns_..."), if there are any; and with `na_probs` what `best_threshold` gives:
        "best_exact", "best_exact_thresh", "best_f1", "best_f1_thresh".

    Raises:
        ValueError: on an unknown version, no questions, predictions that are not strings, an
            unanswerable question in 1.1, and a question of 2.0 without prediction or probability.
            (For 1.1 a missing prediction is wrong, with a warning. The official scorer of 2.0
            gives no score then, but ends in a KeyError.)
    """
    if version is None:
        version = VERSIONS[na_probs is not None or not all(gold.values())]
    exact, f1 = _question_scores(gold, predictions, version)
    if version == "1.1":
        if na_probs is not None:
            raise ValueError("na_probs are for version '2.0'; received version '1.1'.")
        # The official scorers add up differently, in the last digit: this one is a plain loop.
        totals = [0.0, 0.0]
        for key in exact:
            totals = [totals[0] + exact[key], totals[1] + f1[key]]
        exact_match, mean_f1 = (100.0 * total / len(gold) for total in totals)
        return {"exact_match": exact_match, "f1": mean_f1, "total": len(gold)}

    final_exact, final_f1 = exact, f1
    if na_probs is not None:
        _check_na_probs(gold, na_probs)
        silent = [key for key in exact if na_probs[key] > na_prob_thresh]
        right = {key: float(not gold[key]) for key in silent}
        final_exact, final_f1 = exact | right, f1 | right
    scores = {"exact_match": _percent(final_exact, gold)}
    answerable = [key for key in gold if gold[key]]
    unanswerable = [key for key in gold if not gold[key]]
    for prefix, keys in (("", gold), ("HasAns_", answerable), ("NoAns_", unanswerable)):
        if keys:
            scores[prefix + "exact"] = _percent(final_exact, keys)
            scores[prefix + "f1"] = _percent(final_f1, keys)
            scores[prefix + "total"] = len(keys)
    if na_probs is not None:
        for name, raw in (("exact", exact), ("f1", f1)):
            best, threshold = _best_threshold(gold, predictions, raw, na_probs)
            scores |= {f"best_{name}": best, f"best_{name}_thresh": threshold}
    return scores


def best_threshold(
    gold: Mapping[str, Sequence[str]],
    predictions: Mapping[str, str],
    na_probs: Mapping[str, float],
    metric: str = "f1",
) -> tuple[float, float]:
    """The threshold of `na_probs` that gives the best score of SQuAD 2.0, as the official scorer.

    It goes through the questions from the lowest `na_probs`, in the order of `na_probs` where they
    are equal, and keeps the first one after which the score is best. So the score counts on a
    threshold in the middle of equal `na_probs` if that is best, and the threshold is 0.0 if no
    answer at all is best, whatever the scale.

    Args:
        gold: see `score_squad`.
        predictions: see `score_squad`; the best answer there is, also where "" may be better.
        na_probs: see `score_squad`.
        metric: "f1" or "exact".

    Returns:
        The best score, in percent, and the threshold: what is above it counts as no answer.

    Raises:
        ValueError: as `score_squad`, and on another metric.
    """
    if metric not in ("exact", "f1"):
        raise ValueError(f"metric must be 'exact' or 'f1', received {metric!r}.")
    exact, f1 = _question_scores(gold, predictions, "2.0")
    _check_na_probs(gold, na_probs)
    return _best_threshold(gold, predictions, exact if metric == "exact" else f1, na_probs)


def _best_threshold(gold, predictions, raw, na_probs):
    best = score = sum(not answers for answers in gold.values())
    threshold = 0.0
    for key in sorted(na_probs, key=lambda key: na_probs[key]):
        if key not in gold:
            continue
        # Answering gains the answer's score, or loses a question that had none.
        score += raw[key] if gold[key] else -bool(predictions[key])
        if score > best:
            best, threshold = score, na_probs[key]
    return 100.0 * best / len(gold), threshold


def _question_scores(gold, predictions, version):
    """Exact match and F1 of each question that has a prediction."""
    if version not in VERSIONS:
        raise ValueError(f"version must be one of {VERSIONS}, received {version!r}.")
    if not gold:
        raise ValueError("There are no questions to score: gold is empty.")
    if version == "1.1" and (without := [key for key in gold if not gold[key]]):
        raise ValueError(
            f"SQuAD 1.1 has an answer to every question, and {len(without)} have none, such as "
            f"{without[0]!r}. Use version='2.0'."
        )
    _check_kind(predictions, str, "predictions")
    if extra := [key for key in predictions if key not in gold]:
        warnings.warn(
            f"{len(extra)} predictions are of no question and do not count, such as {extra[0]!r}.",
            stacklevel=3,
        )
    if missing := [key for key in gold if key not in predictions]:
        told = f"{len(missing)} of {len(gold)} questions have no prediction, such as {missing[0]!r}"
        if version == "2.0":
            raise ValueError(f"{told}. Predict '' where there is no answer.")
        warnings.warn(f"{told}: they count as wrong.", stacklevel=3)
    exact, f1 = {}, {}
    for key, answers in gold.items():
        if key not in predictions:
            continue
        predicted = normalize_answer(predictions[key])
        answers = [normalize_answer(answer) for answer in answers]
        if version == "2.0":
            answers = [answer for answer in answers if answer] or [""]
        exact[key] = max(int(predicted == answer) for answer in answers)
        f1[key] = max(_f1(predicted.split(), answer.split(), version) for answer in answers)
    return exact, f1


def _f1(predicted, gold, version):
    if version == "2.0" and not (predicted and gold):
        return int(predicted == gold)
    same = sum((collections.Counter(predicted) & collections.Counter(gold)).values())
    if not same:
        return 0
    precision, recall = same / len(predicted), same / len(gold)
    return 2 * precision * recall / (precision + recall)


def _percent(scores, keys):
    return 100.0 * sum(scores[key] for key in keys) / len(keys)


def _check_na_probs(gold, na_probs):
    _check_kind(na_probs, (int, float), "na_probs")
    if missing := [key for key in gold if key not in na_probs]:
        raise ValueError(
            f"{len(missing)} of {len(gold)} questions are not in na_probs, such as {missing[0]!r}."
        )


def _check_kind(values, kind, name):
    kinds = kind if isinstance(kind, tuple) else (kind,)
    for key, value in values.items():
        # NumPy's numbers are not Python's, but for float64.
        if not isinstance(value, kinds) and not (float in kinds and hasattr(value, "__float__")):
            raise ValueError(
                f"{name}: of {key!r} a {kinds[-1].__name__} is needed, not {value!r:.80}."
            )


def _main() -> dict:
    parser = argparse.ArgumentParser(
        prog="python -m keras_bert_zoo.metrics.squad", description=__doc__.split("\n")[0]
    )
    parser.add_argument("data", metavar="DATA", help="File of SQuAD 1.1 or 2.0.")
    parser.add_argument("predictions", metavar="PREDICTIONS", help="JSON: question ids, answers.")
    parser.add_argument("--na_prob_file", help="JSON: question ids, probabilities of no answer.")
    parser.add_argument(
        "--na_prob_thresh", type=float, default=1.0, help='Above it, the answer is "".'
    )
    parser.add_argument("--version", choices=VERSIONS, help="Of the scorer; by default DATA's.")
    arguments = parser.parse_args()
    gold, version = read_gold(arguments.data)
    predictions = read_mapping(arguments.predictions, str)
    na_probs = None
    if arguments.na_prob_file:
        na_probs, version = read_mapping(arguments.na_prob_file, (int, float)), "2.0"
    version = arguments.version or version
    return score_squad(gold, predictions, version, na_probs, arguments.na_prob_thresh)


if __name__ == "__main__":
    run(_main)
