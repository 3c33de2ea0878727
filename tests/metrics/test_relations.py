"""SemEval-2010 task 8 against the reports of its official scorer, and by hand."""

import json

import pytest

from keras_bert_zoo.metrics import relations
from keras_bert_zoo.metrics.programs import run
from keras_bert_zoo.metrics.relation_answers import RELATIONS
from keras_bert_zoo.metrics.relations import (
    LABELS,
    check_answers,
    read_answers,
    relation_report,
    relation_tables,
    score_relations,
    write_answers,
)

KEY = {
    1: "Cause-Effect(e1,e2)",
    2: "Cause-Effect(e2,e1)",
    3: "Message-Topic(e1,e2)",
    4: "Other",
    5: "Other",
    6: "Message-Topic(e1,e2)",
}
PROPOSED = {
    1: "Cause-Effect(e1,e2)",
    2: "Cause-Effect(e1,e2)",  # The direction is wrong.
    3: "Other",
    4: "Entity-Origin(e2,e1)",  # The key does not have it.
    6: "Message-Topic(e1,e2)",
}
# What the official scorer (version 1.2) prints of these; 5 is skipped.
REPORT = """\
!!!WARNING!!! The proposed file contains 1 label(s) of type 'Entity-Origin(e2,e1)', which is NOT \
present in the key file.

<<< (2*9+1)-WAY EVALUATION (USING DIRECTIONALITY)>>>:

Confusion matrix:
        C-E1 C-E2 M-T1  _O_ *EO2 <-- classified as
      +-------------------------+ -SUM- skip ACTUAL
 C-E1 |   1    0    0    0    0 |    1    0    1
 C-E2 |   1    0    0    0    0 |    1    0    1
 M-T1 |   0    0    1    1    0 |    2    0    2
  _O_ |   0    0    0    0    1 |    1    1    2
      +-------------------------+
 -SUM-    2    0    1    1    1      5    1    6
"""


@pytest.fixture
def program(monkeypatch, capsys):
    """Runs the program in this process; gives what it printed, without and in JSON."""

    def call(*arguments):
        monkeypatch.setattr("sys.argv", ["relations", *map(str, arguments)])
        run(relations._main)
        *lines, last = capsys.readouterr().out.splitlines(keepends=True)
        return "".join(lines), json.loads(last)

    return call


@pytest.mark.parametrize("number", [1, 2])
def test_official_reports_to_the_letter(shared_data, program, number):
    folder = shared_data / "semeval2010_task8"
    official = (folder / f"result_scores{number}.txt").read_text("utf-8")  # Line ends are read.
    report, scores = program(
        folder / f"proposed_answer{number}.txt", folder / f"answer_key{number}.txt"
    )
    assert report == official
    assert len(report) > 8000
    assert f"macro-averaged F1 = {scores['macro_f1']:.2f}%" in official
    assert round(scores["macro_f1"], 2) == {1: 64.09, 2: 6.35}[number]
    assert round(scores["without_direction"]["macro"]["f1"], 2) == {1: 72.20, 2: 9.71}[number]
    assert round(scores["with_direction_labels"]["macro"]["f1"], 2) == {1: 54.49, 2: 4.84}[number]


def test_labels_that_the_key_does_not_have():
    report = relation_report(relation_tables(PROPOSED, KEY))
    assert report.startswith(REPORT)
    assert "         C-E  M-T  _O_  *EO <-- classified as\n" in report
    assert "  _O_ |   0    0    0    1 |    1     0     1      2\n" in report


def test_by_hand():
    scores = score_relations(PROPOSED, KEY)
    # Cause-Effect: 1 right of 2 proposed and 2 existing. Message-Topic: 1 of 1 and 2.
    official = scores["official"]
    assert official["relations"]["Cause-Effect"]["f1"] == pytest.approx(50, abs=1e-12)
    assert official["relations"]["Message-Topic"]["f1"] == pytest.approx(200 / 3, abs=1e-12)
    assert scores["macro_f1"] == official["macro"]["f1"] == pytest.approx(175 / 3, abs=1e-12)
    assert official["micro"]["precision"] == pytest.approx(200 / 3, abs=1e-12)
    assert official["coverage"] == pytest.approx(500 / 6, abs=1e-12)
    assert official["accuracy"] == pytest.approx(40, abs=1e-12)
    assert official["accuracy_skipped_other"] == pytest.approx(50, abs=1e-12)
    assert scores["without_direction"]["relations"]["Cause-Effect"]["f1"] == 100.0
    # Over C-E1 (2/3), C-E2 (0) and M-T1 (2/3).
    fine = scores["with_direction_labels"]["macro"]["f1"]
    assert fine == pytest.approx(400 / 9, abs=1e-12)
    perfect = score_relations(KEY, KEY)
    assert perfect["macro_f1"] == 100.0 and perfect["official"]["accuracy"] == 100.0


def test_written_and_read(tmp_path):
    path = tmp_path / "answers.txt"
    write_answers(path, PROPOSED)
    assert path.read_bytes().startswith(b"1\tCause-Effect(e1,e2)\n2\tCause-Effect(e1,e2)\n3\tO")
    assert read_answers(path) == PROPOSED
    assert check_answers(path) == []
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert read_answers(path) == PROPOSED
    assert len(LABELS) == 19 and len(RELATIONS) == 9


def test_objections_to_a_file(tmp_path, program):
    path = tmp_path / "answers.txt"
    path.write_text(
        "1\tOther\n"
        "2 Other\n"
        "3\tother\n"
        "4\tMessage-Topic\n"
        "1\tOther\n"
        "\n"
        "-6\tOther\n"
        "7\tCause-Effect(e1,e2) \n"
        "8\tOther"
    )
    said = [
        "line 2: not a number, a tab and a label: '2 Other'",
        "line 3: 'other' is not one of the labels",
        "line 4: 'Message-Topic' has no direction: Message-Topic(e1,e2) or",
        "line 5: sentence 1 has an answer already",
        "line 6: not a number, a tab and a label: ''",
        "line 7: not a number",
        "line 8: 'Cause-Effect(e1,e2) ' is not one of the labels",
        "line 9: the line does not end",
    ]
    found = check_answers(path)
    assert len(found) == len(said)
    for problem, words in zip(found, said, strict=True):
        assert problem.startswith(f"{path}, {words}")
    with pytest.raises(ValueError, match=r"(?s)line 2: .*line 6: .*\(and 3 more\)"):
        read_answers(path)
    with pytest.raises(SystemExit, match="(?s)error: .*line 9.*8 problems."):
        program(path)
    write_answers(path, KEY)
    assert program(path) == ("", {"format": "ok", "answers": 6})


def test_a_key_without_directions_is_told(shared_data):
    with pytest.raises(ValueError, match="line 1: 'Message-Topic' has no direction"):
        read_answers(shared_data / "semeval2010_task8" / "TEST_FILE_KEY.TXT")


def test_refusals(tmp_path):
    with pytest.raises(ValueError, match="1 proposed answers are for sentences.*sentence 9"):
        relation_tables({9: "Other"}, KEY)
    with pytest.raises(ValueError, match="nothing to score: no answers"):
        relation_tables({}, KEY)
    with pytest.raises(ValueError, match="nothing to score: the key is all Other"):
        relation_tables({1: "Other"}, {1: "Other"})
    with pytest.raises(ValueError, match="proposed, sentence 1: 'Cause-Effect' has no direction"):
        relation_tables({1: "Cause-Effect"}, KEY)
    with pytest.raises(ValueError, match="key, sentence 1: 'Cause' is not one of the labels"):
        relation_tables({1: "Other"}, {1: "Cause"})
    path = tmp_path / "answers.txt"
    for number in (-1, "1", 1.0):
        with pytest.raises(ValueError, match="numbered by integers from 0"):
            write_answers(path, {number: "Other"})
    assert not path.exists()
