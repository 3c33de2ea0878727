"""Questions as windows, their targets, and the files and scores of what was found."""

import json

import numpy as np
import pytest
from tiny import VOCABULARY

from keras_bert_zoo.datasets.questions import (
    encode_questions,
    predicted_texts,
    score_answers,
    tuned_null_threshold,
    write_predictions,
)
from keras_bert_zoo.datasets.squad import Question, read_squad
from keras_bert_zoo.metrics.squad import best_threshold, read_gold, read_mapping, score_squad
from keras_bert_zoo.tasks.span_decoding import AnswerSpan, QuestionAnswers, SpanDecoder
from keras_bert_zoo.text.wordpiece import WordPieceTokenizer

SHARED = ["xquad.en.json", "dev-subset-normans-complexity.json"]


@pytest.fixture(scope="module")
def tokenizer():
    return WordPieceTokenizer(VOCABULARY)


@pytest.fixture(scope="module")
def real_tokenizer(shared_data):
    return WordPieceTokenizer(shared_data / "vocab/bert-base-uncased/vocab.txt")


@pytest.mark.parametrize("sequence_length, stride", [(384, 128), (128, 32)])
def test_every_gold_answer_comes_back_from_its_windows(
    shared_data, real_tokenizer, sequence_length, stride
):
    """Token span to character span to text: all but the one that ends inside a token."""
    total, inexact = 0, []
    for name in SHARED:
        read = read_squad(shared_data / "squad" / name)
        encoded = encode_questions(read, real_tokenizer, sequence_length, stride)
        windows, targets = encoded.windows, encoded.examples.targets
        if sequence_length == 128:
            assert len(windows) > 1.2 * len(read)
        listed = {key for key, _, _ in encoded.inexact}
        recovered = {}
        holding = np.flatnonzero(targets["start_positions"] > 0)
        places = targets["start_positions"][holding], targets["end_positions"][holding]
        spans = windows.characters(holding, *places)
        for number, start, end in zip(windows.question_numbers[holding], *spans, strict=True):
            question = read.examples[number]
            recovered.setdefault(question.id, set()).add(question.context[start:end])
        for question in read:
            if question.is_impossible:
                assert question.id not in recovered
                continue
            total += 1
            assert len(recovered[question.id]) == 1
            if recovered[question.id] != {question.answers[0][0]}:
                assert question.id in listed
        inexact += encoded.inexact
        assert encoded.outside == ()
    assert total == 1483
    ((key, gold, given),) = inexact
    assert key == "5729e2316aef0514001550c5" and given.startswith(gold) and given != gold


@pytest.mark.parametrize("sequence_length, stride", [(384, 128), (128, 32)])
def test_logits_of_the_targets_give_the_official_score(
    shared_data, real_tokenizer, sequence_length, stride
):
    for name in SHARED:
        gold, version = read_gold(shared_data / "squad" / name)
        encoded = encode_questions(
            read_squad(shared_data / "squad" / name), real_tokenizer, sequence_length, stride
        )
        decoder = SpanDecoder(encoded.windows, max_answer_tokens=100, null=version == "2.0")
        targets = encoded.examples.targets
        for first in range(0, len(encoded.windows), 64):
            numbers = np.arange(first, min(first + 64, len(encoded.windows)))
            outputs = {}
            for side in ("start", "end"):
                places = targets[f"{side}_positions"][numbers]
                outputs[f"{side}_logits"] = np.eye(sequence_length)[places]
            decoder.add(numbers, outputs)
        ids = [question.id for question in encoded.questions]
        answers = dict(zip(ids, decoder.answers(), strict=True))
        scores = score_answers(gold, answers, -1.0 if version == "2.0" else None)
        wrong = [key for key in ids if gold[key] and answers[key].best.text not in gold[key]]
        assert set(wrong) <= {"5729e2316aef0514001550c5"} and scores["f1"] > 99.97


def test_targets_by_hand(tokenizer):
    context = "tea is fine . the capital of france is paris . a cup of tea"
    questions = [
        Question("paris", "what is fine ?", context, (("paris", 39), ("tea", 0))),
        Question("none", "what is bad ?", context, (), True),
        Question("untold", "what is good ?", context),
        Question("inside", "what ?", context, (("capit", 18),)),
        Question("space", "what ?", "tea  cup", ((" ", 3),)),
    ]
    encoded = encode_questions(questions, tokenizer, 14, 4, 8)
    ids = encoded.windows.features["token_ids"].to_list()
    paris, capital = tokenizer.token_to_id("paris"), tokenizer.token_to_id("capital")
    starts = encoded.examples.targets["start_positions"]
    np.testing.assert_array_equal(starts, encoded.examples.targets["end_positions"])
    seen = set()
    for row, owner, place in zip(ids, encoded.windows.question_numbers, starts, strict=True):
        seen.add(owner)
        if owner in (0, 3):
            wanted = capital if owner == 3 else paris
            assert place == (row.index(wanted) if wanted in row else 0)
        else:
            assert place == (-1 if owner in (2, 4) else 0)
    assert seen == set(range(5)) and (starts > 0).sum() > 3
    assert encoded.inexact == (("inside", "capit", "capital"), ("space", " ", ""))
    assert encoded.outside == ()
    # Windows that share no token cut an answer in two.
    long = Question(
        "long", "what ?", context, (("tea is fine . the capital of france is paris", 0),)
    )
    parts = encode_questions([long, questions[0]], tokenizer, 14, 14, 8)
    assert parts.outside == ("long",)
    assert not parts.examples.targets["start_positions"][parts.windows.question_numbers == 0].any()
    alone = encode_questions(questions[2:3], tokenizer, 14, 4, 8)
    assert alone.examples.targets is None and alone.inexact == ()


def found(text, score, null):
    spans = [AnswerSpan("", 0, 0, null, 0.0, 0.25)]
    if text:
        spans.append(AnswerSpan(text, 1, 1 + len(text), score, 0.0, 0.75))
    return QuestionAnswers(tuple(sorted(spans, key=lambda s: -s.score)), spans[0])


GOLD = {"a": ["tea"], "b": [], "c": ["paris"], "d": []}
ANSWERS = {
    "a": found("tea", 5, 1),
    "b": found("film", 2, 3),
    "c": found("Päris", 4, 2),
    "d": found("", 0, 3),
}


def test_scores_are_those_of_the_scorer_on_the_files(tmp_path):
    threshold = tuned_null_threshold(GOLD, ANSWERS)
    assert threshold == -3  # Only "tea" is right, at -4, and the next is wrong, at -2.
    scores = score_answers(GOLD, ANSWERS, threshold)
    assert scores["f1"] == scores["best_f1"] == 75 and scores["NoAns_f1"] == 100
    files = write_predictions(tmp_path / "new", ANSWERS, threshold)
    assert [file.name for file in files] == [
        "predictions.json", "nbest_predictions.json", "null_odds.json"
    ]  # fmt: skip
    predictions = read_mapping(files[0], str)
    assert predictions == {"a": "tea", "b": "", "c": "", "d": ""}
    assert score_squad(GOLD, predictions, "2.0")["f1"] == scores["f1"]
    odds = read_mapping(files[2], float)
    assert odds == {"a": -4, "b": 1, "c": -2, "d": 3}
    assert best_threshold(GOLD, predicted_texts(ANSWERS), odds) == (75, -4)
    listed = json.loads(files[1].read_text("utf-8"))
    assert listed["c"][0] == {
        "text": "Päris", "probability": 0.75, "start_logit": 4, "end_logit": 0.0
    }  # fmt: skip
    assert "Päris" in files[1].read_text("utf-8") and len(listed["d"]) == 1


def test_without_a_threshold_every_question_is_answered(tmp_path):
    gold = {"a": ["tea"], "c": ["paris"]}
    answers = {key: ANSWERS[key] for key in gold}
    assert score_answers(gold, answers) == {"exact_match": 50, "f1": 50, "total": 2}
    files = write_predictions(tmp_path, answers)
    assert len(files) == 2 and read_mapping(files[0], str) == {"a": "tea", "c": "Päris"}


def test_a_threshold_below_all_odds_if_silence_is_best():
    gold = {"a": [], "b": [], "c": ["tea"], "d": []}
    threshold = tuned_null_threshold(gold, ANSWERS)
    assert threshold < -4 and set(predicted_texts(ANSWERS, threshold).values()) == {""}
    assert score_answers(gold, ANSWERS, threshold)["f1"] == 75


def test_a_threshold_above_all_odds_if_every_answer_is_right():
    gold = {"a": ["tea"], "c": ["Päris"]}
    answers = {key: ANSWERS[key] for key in gold}
    assert tuned_null_threshold(gold, answers) == -1
    assert score_answers(gold, answers, -1.0)["f1"] == 100


def test_gold_of_a_file_and_its_questions_agree(shared_data):
    for name in SHARED:
        gold, _ = read_gold(shared_data / "squad" / name)
        read = read_squad(shared_data / "squad" / name)
        assert {q.id: [text for text, _ in q.answers] for q in read} == gold
