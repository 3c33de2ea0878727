"""The scorers as programs of their own, and what they share."""

import json
import warnings

import pytest

from keras_bert_zoo.metrics.programs import read_json, read_lines, run

# All in one process: what takes time is the import of TensorFlow, which comes with the package.
EACH = """
import runpy, sys
for arguments in {programs!r}:
    sys.argv = [arguments[0], *arguments[1:]]
    runpy.run_module("keras_bert_zoo.metrics." + arguments[0], run_name="__main__", alter_sys=True)
    print("---")
"""


def test_each_scorer_runs_as_a_module(run_python, tmp_path):
    def file(name, text):
        (tmp_path / name).write_text(text)
        return str(tmp_path / name)

    question = '{"id": "a", "answers": [{"text": "x"}]}'
    data = file("data.json", f'{{"data": [{{"paragraphs": [{{"qas": [{question}]}}]}}]}}')
    answers = file("answers.txt", "1\tCause-Effect(e1,e2)\n")
    labels = file("labels.txt", "yes\nno\n")
    rte = file("RTE.tsv", "index\tprediction\n0\tentailment\n")
    programs = [
        ("squad", data, file("predictions.json", '{"a": "x"}')),
        ("entities", file("columns.txt", "Ann B-PER B-PER\n")),
        ("relations", answers, answers),
        ("classification", labels, labels),
        ("glue", "RTE", rte, rte),
    ]
    parts = run_python(EACH.format(programs=programs)).split("---\n")[:-1]
    last = [json.loads(part.splitlines()[-1]) for part in parts]
    names = ("exact_match", "f1", "macro_f1", "accuracy", "accuracy")
    for scores, name, full in zip(last, names, (100.0, 1.0, 100.0, 1.0, 1.0), strict=True):
        assert scores[name] == full


def test_the_last_line_is_json_whatever_the_scores(capsys):
    run(lambda: {"a": float("nan"), 1: [float("inf"), {"b": 2.5}], "c": None})
    assert json.loads(capsys.readouterr().out) == {"a": None, "1": [None, {"b": 2.5}], "c": None}


def test_warnings_are_a_line_of_their_own(capsys):
    def main():
        warnings.warn("look here", stacklevel=1)
        return {}

    before = warnings.showwarning
    run(main)
    out, err = capsys.readouterr()
    assert (out, err) == ("{}\n", "warning: look here\n")
    assert warnings.showwarning is before


@pytest.mark.parametrize("error", [ValueError("no such thing"), OSError("no such file")])
def test_errors_are_one_sentence(capsys, error):
    def main():
        raise error

    with pytest.raises(SystemExit, match=f"^error: {error}$"):
        run(main)
    assert capsys.readouterr().out == ""


def test_lines_end_at_line_feeds_only(tmp_path):
    path = tmp_path / "lines.txt"
    path.write_bytes("\ufeffa\r\n\u2028b\u0085\n\n c \n".encode())
    assert read_lines(path) == ["a", "\u2028b\u0085", "", " c "]
    path.write_bytes(b"a\n\nb")
    assert read_lines(path) == ["a", "", "b"]
    path.write_bytes(b"")
    assert read_lines(path) == []
    path.write_bytes(b"a\nb\n\xff")
    with pytest.raises(ValueError, match="lines.txt, line 3: not UTF-8"):
        read_lines(path)


def test_what_is_no_json(tmp_path):
    path = tmp_path / "x.json"
    path.write_text('{"a": 1,\n "b" 2}')
    with pytest.raises(ValueError, match=r"x.json, line 2: not JSON \(.* at column 6\)"):
        read_json(path)
