"""Entity scores against conlleval's figures, against seqeval, and by hand."""

import json
import random
import warnings

import pytest

from keras_bert_zoo.metrics import entities
from keras_bert_zoo.metrics.entities import conlleval_table, read_columns, score_entities
from keras_bert_zoo.metrics.programs import run
from keras_bert_zoo.metrics.tagging import SCHEMES

# Gold: PER 0-2, LOC 3-5 | LOC, LOC | PER 0, ORG 2, ORG 3. Predicted: PER 0-2, ORG 3, LOC 4 |
# LOC 0-2 | PER 0, PER 1, ORG 2-4. Right: the first and the third PER.
COLUMNS = """\
Ann B-PER I-PER
Lee I-PER I-PER
of O O
Oslo B-LOC I-ORG
Bank I-LOC I-LOC

Rio I-LOC B-LOC
Rio B-LOC I-LOC
-X- O O
Bob I-PER I-PER
, O B-PER
EU B-ORG B-ORG
EU B-ORG I-ORG
"""
# What conlleval (version 2004-01-26) prints of these columns.
TABLE = """\
processed 11 tokens with 7 phrases; found: 7 phrases; correct: 2.
accuracy:  45.45%; precision:  28.57%; recall:  28.57%; FB1:  28.57
              LOC: precision:   0.00%; recall:   0.00%; FB1:   0.00  2
              ORG: precision:   0.00%; recall:   0.00%; FB1:   0.00  2
              PER: precision:  66.67%; recall: 100.00%; FB1:  80.00  3"""
# ... and of the corrupted tags of wikigold that `corrupted` makes.
WIKIGOLD = """\
processed 39152 tokens with 3558 phrases; found: 5572 phrases; correct: 2020.
accuracy:  91.23%; precision:  36.25%; recall:  56.77%; FB1:  44.25
              LOC: precision:  29.66%; recall:  61.83%; FB1:  40.09  2114
             MISC: precision:  38.90%; recall:  57.58%; FB1:  46.43  1054
              ORG: precision:  35.84%; recall:  49.89%; FB1:  41.71  1250
              PER: precision:  46.36%; recall:  57.28%; FB1:  51.25  1154"""


@pytest.fixture
def columns(tmp_path):
    def write(text):
        path = tmp_path / "columns.txt"
        path.write_bytes(text.encode("utf-8"))
        return path

    return write


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text,
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace(" ", "\t").replace("Oslo", "Os lo"),
        lambda text: "\ufeff\n" + text.replace(" ", "   ").replace("Rio", "R\u00a0\u2028o"),
        lambda text: text.rstrip("\n"),
        lambda text: text.replace("of O O", "of\\ O O").replace("\n\n", "\n \n\n"),
    ],
    ids=["plain", "crlf", "tabs", "blanks", "no-last-newline", "empty-lines"],
)
def test_conllevals_table(columns, change):
    scores = score_entities(*read_columns(columns(change(COLUMNS))))
    assert conlleval_table(scores) == TABLE


def test_only_two_columns(columns):
    text = "".join(line.partition(" ")[2] + "\n" for line in COLUMNS.split("\n"))
    # Without the column of words -X- is no boundary, but a token more.
    scores = score_entities(*read_columns(columns(text)))
    assert (scores["tokens"], scores["correct"], scores["gold"]) == (12, 2, 7)


def corrupted(sentences):
    """A false prediction for every few tokens, by rule."""
    other = {"PER": "ORG", "ORG": "MISC", "MISC": "LOC", "LOC": "PER"}
    number, result = 0, []
    for sentence in sentences:
        tags = []
        for tag in sentence:
            number += 1
            if tag == "O":
                tags.append("I-LOC" if number % 31 == 0 else tag)
            elif number % 7 == 0:
                tags.append("I-" + other[tag[2:]])
            elif number % 11 == 0:
                tags.append("O")
            else:
                tags.append("B-" + tag[2:] if number % 5 == 0 else tag)
        result.append(tags)
    return result


def test_conllevals_table_of_real_tags(shared_data, columns, monkeypatch, capsys):
    text = (shared_data / "wikigold" / "wikigold.conll.txt").read_text("utf-8")
    blocks = [[line for line in block.split("\n") if line] for block in text.split("\n\n")]
    gold = [[line.split(" ")[-1] for line in block] for block in blocks]
    lines = [
        "\n".join(map(" ".join, zip(block, tags, strict=True)))
        for block, tags in zip(blocks, corrupted(gold), strict=True)
    ]
    monkeypatch.setattr("sys.argv", ["entities", str(columns("\n\n".join(lines) + "\n"))])
    run(entities._main)
    table, last = capsys.readouterr().out.rstrip("\n").rsplit("\n", 1)
    assert table == WIKIGOLD
    scores = json.loads(last)
    assert scores["f1"] == pytest.approx(2 * 2020 / (5572 + 3558), abs=1e-12)
    assert scores["types"]["PER"]["predicted"] == 1154


def test_averages_by_hand(columns):
    scores = score_entities(*read_columns(columns(COLUMNS)))
    assert scores["f1"] == pytest.approx(2 / 7, abs=1e-15)
    assert scores["macro"]["precision"] == pytest.approx(2 / 9, abs=1e-15)
    assert scores["macro"]["f1"] == pytest.approx(0.8 / 3, abs=1e-15)
    assert scores["weighted"]["recall"] == pytest.approx(2 / 7, abs=1e-15)  # 2 of 7 are PER.
    assert scores["accuracy"] == pytest.approx(5 / 11, abs=1e-15)
    assert scores["types"]["PER"] == {
        "precision": pytest.approx(2 / 3),
        "recall": 1.0,
        "f1": pytest.approx(0.8),
        "gold": 2,
        "predicted": 3,
        "correct": 2,
    }


def test_a_scheme_counts_whole_spans_only():
    gold, predicted = [["B-A", "I-A", "O", "B-A"]], [["I-A", "I-A", "O", "B-A"]]
    assert score_entities(gold, predicted)["f1"] == 1.0
    strict = score_entities(gold, predicted, "IOB2")
    assert (strict["predicted"], strict["correct"], strict["recall"]) == (1, 1, 0.5)


@pytest.mark.parametrize("gold", [[], [[]], [["O", "O"]]])
def test_nothing_to_find(gold):
    scores = score_entities(gold, gold)
    assert scores["f1"] == scores["macro"]["f1"] == scores["weighted"]["recall"] == 0.0
    assert scores["types"] == {}
    assert conlleval_table(scores).startswith(f"processed {sum(map(len, gold))} tokens with 0")
    json.dumps(scores, allow_nan=False)


def test_refusals():
    with pytest.raises(ValueError, match="2 gold sentences, but 1 predicted"):
        score_entities([["O"], ["O"]], [["O"]])
    with pytest.raises(ValueError, match="Sentence 1 has 1 gold tags, but 2"):
        score_entities([["O"], ["O"]], [["O"], ["O", "O"]])
    with pytest.raises(ValueError, match="Sentence 0: A tag is 'O'.*'X'"):
        score_entities([["O"]], [["X"]])
    with pytest.raises(ValueError, match="Sentence 0: IOB2 has the letters.*'S-A'"):
        score_entities([["S-A"]], [["O"]], "IOB2")


@pytest.mark.parametrize(
    "text, said",
    [
        ("a O O\nb O\n", r"line 2: there are 2 columns, where the first token has 3.*'b O'"),
        ("\nO\n", "line 2: there are 1 columns, where at least 2"),
        ("a O O\n\nb O [PAD]\n", r"line 3: A tag is 'O'.*\[PAD\]"),
        ("a\tO\tO\nb O\tO\n", "line 2: there are 2 columns"),
    ],
)
def test_files_that_are_none(columns, text, said):
    with pytest.raises(ValueError, match=f"(?s)columns.txt, {said}"):
        read_columns(columns(text))


@pytest.mark.parametrize("scheme", [None, *SCHEMES])
def test_against_seqeval(scheme):
    seqeval = pytest.importorskip("seqeval.metrics")
    from seqeval.scheme import IOB1, IOB2, IOBES

    strict = {"IOB1": IOB1, "IOB2": IOB2, "BIOES": IOBES}
    mode = {} if scheme is None else {"mode": "strict", "scheme": strict[scheme]}
    draw = random.Random(3)
    letters = "BIES" if scheme == "BIOES" else "BI"

    def tags(length):
        drawn = (f"{draw.choice(letters)}-{draw.choice(['A', 'B', 'C'])}" for _ in range(length))
        return [draw.choice(["O", tag, tag]) for tag in drawn]

    compared = 0
    for _ in range(100):
        gold = [tags(draw.randint(1, 12)) for _ in range(10)]
        predicted = [
            [draw.choice(pair) for pair in zip(one, tags(len(one)), strict=True)] for one in gold
        ]
        scores = score_entities(gold, predicted, scheme)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Of classes without predictions.
            assert scores["accuracy"] == seqeval.accuracy_score(gold, predicted)
            for name, metric in (
                ("precision", seqeval.precision_score),
                ("recall", seqeval.recall_score),
                ("f1", seqeval.f1_score),
            ):
                micro, macro, weighted = (
                    metric(gold, predicted, average=average, **mode)
                    for average in ("micro", "macro", "weighted")
                )
                assert scores[name] == pytest.approx(micro, abs=1e-15)
                assert scores["macro"][name] == pytest.approx(macro, abs=1e-15)
                assert scores["weighted"][name] == pytest.approx(weighted, abs=1e-15)
                by_type = [those[name] for those in scores["types"].values()]
                each = metric(gold, predicted, average=None, **mode)
                assert by_type == pytest.approx(each.tolist(), abs=1e-15)
                compared += 3 + len(by_type)
    assert compared > 1500
