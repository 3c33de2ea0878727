"""The script that lets trained models answer, as users run it, for each kind of task."""

import json

import numpy as np
import pytest
from scripts import run
from tiny import VOCABULARY, tiny_config

import keras_bert_zoo as kbz

WORDS = [*VOCABULARY, "$", "#"]
TEXTS = ["a good film", "", "tea 茶 of paris"]
PAIRS = [("what is the capital", "paris is the capital of france"), ("a cup", "of tea")]
TAGGED = ["<e1>tea</e1> of <e2>paris</e2>", "a <e1>cup</e1> of <e2>tea</e2>"]
CHOICES = [("a cup of", ["tea", "film", "paris"]), ("what a", ["film", "is"])]


def parts():
    config = tiny_config(vocab_size=len(WORDS), hidden_size=32)
    tokenizer = kbz.WordPieceTokenizer(WORDS, lowercase=True)
    return kbz.BertEncoder(config), kbz.TextPreprocessor(tokenizer, 16)


def make(kind, pair=None):
    encoder, preprocessor = parts()
    more = {"preprocessor": preprocessor}
    if kind in (kbz.TextClassifier, kbz.MultiLabelClassifier):
        return kind(encoder, ["bad", "good"], pair=pair, **more)
    if kind is kbz.TokenClassifier:
        return kind(encoder, ["O", "B-X"], **more)
    if kind is kbz.RelationClassifier:
        return kind(encoder, ["x", "y"], **more)
    return kind(encoder, **more)


def jsonl(path, names, rows):
    lines = [json.dumps(dict(zip(names, row, strict=True))) for row in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def text_file(path, rows):
    path.write_text("".join(f"{row}\r\n" for row in rows), encoding="utf-8")
    return path


# Of each task: how its file is written, and what its own method says of the same rows.
CASES = {
    "texts": (
        lambda: make(kbz.TextClassifier),
        lambda folder: text_file(folder / "in.txt", TEXTS),
        lambda task: task.classify(TEXTS),
    ),
    "pairs": (
        lambda: make(kbz.TextClassifier, pair=True),
        lambda folder: jsonl(folder / "in.jsonl", ("text_a", "text_b"), PAIRS),
        lambda task: task.classify(PAIRS),
    ),
    "several labels": (
        lambda: make(kbz.MultiLabelClassifier),
        lambda folder: jsonl(folder / "in.jsonl", ("text",), [(t,) for t in TEXTS]),
        lambda task: task.classify(TEXTS),
    ),
    "tags": (
        lambda: make(kbz.TokenClassifier),
        lambda folder: text_file(folder / "in.txt", TEXTS),
        lambda task: [{"words": words} for words in task.tag(TEXTS)],
    ),
    "questions": (
        lambda: make(kbz.QuestionAnswering),
        lambda folder: jsonl(folder / "in.jsonl", ("question", "context"), PAIRS),
        lambda task: task.answer(*map(list, zip(*PAIRS, strict=True))),
    ),
    "choices": (
        lambda: make(kbz.MultipleChoice),
        lambda folder: jsonl(folder / "in.jsonl", ("question", "choices"), CHOICES),
        lambda task: task.choose(
            {"text_a": ["a cup of", "what a"], "text_b": [c for _, c in CHOICES]}
        ),
    ),
    "relations": (
        lambda: make(kbz.RelationClassifier),
        lambda folder: text_file(folder / "in.txt", TAGGED),
        lambda task: task.classify(TAGGED),
    ),
    "masks": (
        lambda: make(kbz.MaskedLM),
        lambda folder: text_file(folder / "in.txt", ["a [MASK] film"]),
        lambda task: [{"masks": masks} for masks in task.fill(["a [MASK] film"])],
    ),
}


def same(found, expected):
    """Whether two answers are the same, numbers nearly."""
    if isinstance(expected, dict):
        return set(found) == set(expected) and all(same(found[k], expected[k]) for k in expected)
    if isinstance(expected, (list, tuple)):
        return len(found) == len(expected) and all(map(same, found, expected))
    if isinstance(expected, float):
        return abs(found - expected) < 1e-5
    return found == expected


@pytest.mark.parametrize("kind", CASES)
def test_answers_are_those_of_the_task(tmp_path, kind):
    task, write, expected = CASES[kind]
    task = task()
    task.save(tmp_path / "model.keras")
    run("predict.py", "--model", tmp_path / "model.keras", "--input_file", write(tmp_path),
        "--output_file", tmp_path / "out.jsonl", check=False)  # fmt: skip
    found = [json.loads(x) for x in (tmp_path / "out.jsonl").read_text("utf-8").splitlines()]
    assert [row.pop("line") for row in found] == list(range(1, len(found) + 1))
    assert same(found, expected(task)), (found, expected(task))


def test_a_preset_answers_texts_of_the_command_line(tmp_path):
    embedder = make(kbz.TextEmbedder)
    embedder.save_to_preset(tmp_path / "preset")
    found = run("predict.py", "--model", tmp_path / "preset", "--text", "tea")
    assert found["line"] == 1
    np.testing.assert_allclose(found["embedding"], embedder.embed(["tea"])[0], atol=1e-5)


def test_what_cannot_be_answered_is_said(tmp_path):
    make(kbz.TextClassifier, pair=True).save(tmp_path / "model.keras")
    rows = tmp_path / "rows.tsv"
    rows.write_text("text_a\ttext_b\na\tb\nonly one\n", encoding="utf-8")
    flags = ("--model", tmp_path / "model.keras")
    out = tmp_path / "out.jsonl"
    told = run("predict.py", *flags, "--input_file", rows, "--output_file", out, check=False)
    assert "line 3" in told and not out.exists()
    told = run("predict.py", *flags, "--input_file", rows, "--output_file", out,
               "--skip_bad_rows", check=False)  # fmt: skip
    assert "1 " in told and len(out.read_text("utf-8").splitlines()) == 1
    assert "text_a and text_b" in run("predict.py", *flags, "--text", "tea", check=False)
    assert "--input_file" in run("predict.py", *flags, check=False)
    encoder, preprocessor = parts()
    encoder.save_to_preset(tmp_path / "encoder", preprocessor.tokenizer)
    told = run("predict.py", "--model", tmp_path / "encoder", "--text", "tea", check=False)
    assert "without a head" in told
