"""SQuAD's scores against the figures of the official scorers, and rules worked out by hand."""

import json
import warnings

import numpy as np
import pytest

from keras_bert_zoo.metrics import squad
from keras_bert_zoo.metrics.programs import run
from keras_bert_zoo.metrics.squad import (
    best_threshold,
    normalize_answer,
    read_gold,
    read_mapping,
    score_squad,
)

V1 = ("xquad.en.json", "predictions-bert-ensemble-v1.1-xquad-en.json", "1.1")
V2 = (
    "dev-subset-normans-complexity.json",
    "predictions-bert-single-v2.0-normans-complexity.json",
    "2.0",
)


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        yield


@pytest.fixture
def program(monkeypatch, capsys):
    """Runs the program in this process; gives the last line it printed."""

    def call(*arguments):
        monkeypatch.setattr("sys.argv", ["squad", *map(str, arguments)])
        run(squad._main)
        return json.loads(capsys.readouterr().out.splitlines()[-1])

    return call


def write(path, content):
    path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return path


def as_file(gold, version="v2.0"):
    questions = [
        {"id": key, "answers": [{"text": text} for text in texts]} for key, texts in gold.items()
    ]
    return {"version": version, "data": [{"paragraphs": [{"qas": questions}]}]}


@pytest.mark.parametrize("data, predictions, version", [V1, V2])
def test_official_figures(shared_data, program, data, predictions, version):
    folder = shared_data / "squad"
    official = json.loads((folder / "OFFICIAL_SCORES.json").read_text("utf-8"))
    (expected,) = (those for name, those in official.items() if name.startswith(predictions))
    scores = program(folder / data, folder / predictions)
    for name, value in expected.items():
        if version == "1.1":
            assert scores[name] == value  # All 16 digits.
        else:
            assert round(scores[name], 4) == value
    assert scores["exact_match"] == scores.get("exact", scores["exact_match"])
    assert read_gold(folder / data)[1] == version


def test_parts_of_the_official_figures(shared_data):
    gold, _ = read_gold(shared_data / "squad" / V2[0])
    predictions = read_mapping(shared_data / "squad" / V2[1], str)
    scores = score_squad(gold, predictions)
    assert scores["HasAns_total"] + scores["NoAns_total"] == scores["total"] == 626
    for name in ("exact", "f1"):
        both = sum(scores[part + name] * scores[part + "total"] for part in ("HasAns_", "NoAns_"))
        assert both / 626 == pytest.approx(scores[name], abs=1e-10)
    assert scores["NoAns_exact"] == scores["NoAns_f1"]


@pytest.mark.parametrize(
    "text, normal",
    [
        ("The Cat", "cat"),
        ("a cat, an ox; the.", "cat ox"),
        ("cat-and-dog's", "catanddogs"),  # Neighbours join, so this is one word.
        ("the-cat", "thecat"),  # ... and its article is none any more.
        ("U.S. a.m.", "us am"),
        ("$10,000.50", "1000050"),
        ("20–18", "20–18"),  # An en dash is not ASCII punctuation.
        ("  \u00a0tab\there\u2009", "tab here"),
        ("Théâtre the", "théâtre"),
        ("x–the–y", "x– –y"),  # A dash ends a word; a space stands where an article was.
        ("the", ""),
        ("", ""),
    ],
)
def test_normalising(text, normal):
    assert normalize_answer(text) == normal


def test_version_1_by_hand():
    gold = {"a": ["the red cat", "cat"], "b": ["in 1066"], "c": ["two words here"]}
    scores = score_squad(gold, {"a": "Cat!", "b": "1066 or so", "c": "x"})
    assert scores["exact_match"] == pytest.approx(100 / 3, abs=1e-12)
    # b: 1 of 3 predicted words, 1 of 2 gold words: 0.4.
    assert scores["f1"] == pytest.approx(100 * 1.4 / 3, abs=1e-12)
    assert scores["total"] == 3
    # Repeated words count as often as both have them: 2 of 3 and 2 of 2.
    repeated = score_squad({"a": ["no no"]}, {"a": "no no no"})
    assert repeated["f1"] == pytest.approx(80, abs=1e-12)
    # The best F1 and the best exact match may be of different gold answers.
    assert score_squad({"a": ["x", "the"]}, {"a": "an"}) == {
        "exact_match": 100.0,
        "f1": 0.0,
        "total": 1,
    }


def test_version_1_counts_what_is_missing_as_wrong():
    gold = {"a": ["x"], "b": ["y"]}
    with pytest.warns(UserWarning, match="1 of 2 questions have no prediction, such as 'b'"):
        assert score_squad(gold, {"a": "x"})["f1"] == 50.0
    with pytest.warns(UserWarning, match="1 predictions are of no question.*'z'"):
        assert score_squad(gold, {"a": "x", "b": "y", "z": "w"})["f1"] == 100.0


def test_version_2_by_hand():
    gold = {"a": ["red cat"], "b": [], "c": [], "d": ["x", "?!"], "e": ["the", "..."]}
    predictions = {"a": "cat", "b": "", "c": "no", "d": "x", "e": ""}
    scores = score_squad(gold, predictions)
    # Of e nothing is left to compare, so "" is right, though it counts among the answerable.
    assert scores["exact"] == scores["exact_match"] == pytest.approx(60, abs=1e-12)
    assert scores["f1"] == pytest.approx(100 * (2 / 3 + 3) / 5, abs=1e-12)
    assert scores["HasAns_exact"] == pytest.approx(200 / 3, abs=1e-12)
    assert scores["HasAns_f1"] == pytest.approx(100 * (2 / 3 + 2) / 3, abs=1e-12)
    assert scores["NoAns_exact"] == scores["NoAns_f1"] == 50.0
    assert (scores["total"], scores["HasAns_total"], scores["NoAns_total"]) == (5, 3, 2)
    # An answer of which nothing is left agrees with no answer, and is worth nothing in 1.1.
    assert score_squad({"a": [], "b": ["x"]}, {"a": "the", "b": "a"})["NoAns_f1"] == 100.0
    # A gold answer of which nothing is left makes silence no right answer to the others.
    assert score_squad({"a": ["x", "?!"], "b": []}, {"a": "", "b": ""})["HasAns_exact"] == 0.0
    alone = score_squad({"a": ["x"]}, {"a": "x"}, version="2.0")
    assert not any(name.startswith("NoAns") for name in alone)


def test_threshold_by_hand():
    gold = {"a": ["x y"], "b": [], "c": ["z"], "d": []}
    predictions = {"a": "x", "b": "q", "c": "z", "d": ""}
    na_probs = {"a": 0.1, "b": 0.4, "c": 0.3, "d": 0.9, "unknown": 0.2}
    # No answer at all: 2 right. Up to a: + 2/3; up to c: + 1; b: - 1; d was "" and stays right.
    assert best_threshold(gold, predictions, na_probs) == (
        pytest.approx(100 * (2 + 2 / 3 + 1) / 4, abs=1e-12),
        0.3,
    )
    assert best_threshold(gold, predictions, na_probs, "exact") == (75.0, 0.3)
    scores = score_squad(gold, predictions, na_probs=na_probs, na_prob_thresh=0.3)
    assert scores["f1"] == pytest.approx(scores["best_f1"], abs=1e-12)
    assert (scores["best_exact"], scores["best_exact_thresh"]) == (75.0, 0.3)
    # Equal to the threshold is not above it; the default of 1.0 takes every answer.
    assert score_squad(gold, predictions, na_probs=na_probs, na_prob_thresh=0.29)["exact"] == 50.0
    assert score_squad(gold, predictions, na_probs=na_probs)["exact"] == 50.0
    # An unanswerable question that stays silent costs nothing on the way.
    silent = {"a": 0.2, "b": 0.9, "c": 0.3, "d": 0.1}
    assert best_threshold(gold, predictions, silent, "exact") == (75.0, 0.3)
    # Scores of any scale will do; if nothing beats silence, the threshold is 0.
    odds = {key: np.float32(10 * value - 5) for key, value in na_probs.items()}
    assert best_threshold(gold, predictions, odds)[1] == pytest.approx(-2)
    assert best_threshold(gold, dict.fromkeys(gold, "w"), na_probs) == (50.0, 0.0)


def test_program_with_probabilities(tmp_path, program):
    gold = {"a": ["x"], "b": []}
    data = write(tmp_path / "data.json", as_file(gold))
    predictions = write(tmp_path / "predictions.json", {"a": "x", "b": "y"})
    na_probs = write(tmp_path / "na.json", {"a": 0.2, "b": 0.7})
    assert program(data, predictions)["exact"] == 50.0
    scores = program(data, predictions, "--na_prob_file", na_probs, "--na_prob_thresh", 0.5)
    assert scores["exact"] == scores["best_exact"] == 100.0
    assert scores["best_f1_thresh"] == 0.2


@pytest.mark.parametrize(
    "content, version",
    [
        (as_file({"a": ["x"]}, "1.1"), "1.1"),
        (as_file({"a": ["x"]}, "v2.0"), "2.0"),
        (as_file({"a": ["x"]}, "2.0"), "2.0"),
        (as_file({"a": []}, ""), "2.0"),
        ({"data": [{"paragraphs": [{"qas": [{"id": "a", "answers": [{"text": "x"}]}]}]}]}, "1.1"),
    ],
)
def test_version_of_a_file(tmp_path, content, version):
    assert read_gold(write(tmp_path / "data.json", content))[1] == version


def test_refusals():
    gold = {"a": ["x"], "b": []}
    predictions = {"a": "x", "b": ""}
    with pytest.raises(ValueError, match="1 of 2 questions have no prediction, such as 'b'"):
        score_squad(gold, {"a": "x"})
    with pytest.raises(ValueError, match="SQuAD 1.1 has an answer to every question.*'b'"):
        score_squad(gold, predictions, version="1.1")
    with pytest.raises(ValueError, match="na_probs are for version '2.0'"):
        score_squad({"a": ["x"]}, {"a": "x"}, "1.1", {"a": 0.5})
    with pytest.raises(ValueError, match="1 of 2 questions are not in na_probs, such as 'b'"):
        score_squad(gold, predictions, na_probs={"a": 0.5})
    with pytest.raises(ValueError, match="na_probs: of 'a' a float is needed, not '0.5'"):
        best_threshold(gold, predictions, {"a": "0.5", "b": 1})
    with pytest.raises(ValueError, match="metric must be 'exact' or 'f1', received 'em'"):
        best_threshold(gold, predictions, {"a": 0.5, "b": 1}, "em")
    with pytest.raises(ValueError, match="version must be one of .*'3'"):
        score_squad(gold, predictions, "3")
    with pytest.raises(ValueError, match="gold is empty"):
        score_squad({}, {})
    with pytest.raises(ValueError, match="predictions: of 'a' a str is needed, not None"):
        score_squad(gold, {"a": None, "b": ""})


@pytest.mark.parametrize(
    "content, said",
    [
        ('{"data": [\n1,\n', "line 3: not JSON"),
        ("[]", "not a SQuAD file, at its beginning"),
        ({"data": [{"title": "x"}]}, "not a SQuAD file.*paragraphs"),
        (as_file({"a": ["x"], "b": [7]}), "not a SQuAD file, after question 'a'"),
    ],
)
def test_files_that_are_none(tmp_path, content, said):
    with pytest.raises(ValueError, match=f"(?s)data.json.*{said}"):
        read_gold(write(tmp_path / "data.json", content))


def test_a_repeated_question(tmp_path):
    content = as_file({"a": ["x"]})
    content["data"] *= 2
    with pytest.raises(ValueError, match="two questions have the id 'a'"):
        read_gold(write(tmp_path / "data.json", content))


def test_predictions_that_are_none(tmp_path):
    path = write(tmp_path / "p.json", {"a": ["x"]})
    with pytest.raises(ValueError, match=r"p.json: of 'a' a str is needed, not \['x'\]"):
        read_mapping(path, str)
    with pytest.raises(ValueError, match="a JSON object of question ids is needed"):
        read_mapping(write(path, [1]), str)
    path.write_bytes(b'{\n"a": "caf\xe9"}')
    with pytest.raises(ValueError, match="p.json, line 2: not UTF-8"):
        read_mapping(path, str)


def test_an_error_of_the_program_is_one_sentence(tmp_path, program):
    data = write(tmp_path / "data.json", as_file({"a": []}))
    with pytest.raises(SystemExit, match="error: 1 of 1 questions have no prediction") as stop:
        program(data, write(tmp_path / "p.json", {}))
    assert isinstance(stop.value.code, str)  # On stderr, with status 1.
    with pytest.raises(SystemExit, match="error: .*nowhere.json"):
        program(data, tmp_path / "nowhere.json")
