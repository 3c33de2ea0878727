"""Tables and GLUE files, as they are and as they come damaged."""

import json
import sys

import pytest

from keras_bert_zoo.datasets.labelled_texts import (
    LabelledText,
    columns_of,
    labels_of,
    read_glue,
    read_labelled_table,
    read_tfds,
)
from keras_bert_zoo.datasets.tables import read_table

BOM = "\ufeff"


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode("utf-8"))
    return path


def test_bc_c01_a_byte_order_mark(tmp_path):
    path = write(tmp_path / "a.tsv", f"{BOM}pos\tgood tea\nneg\tbad tea\n")
    rows = list(read_labelled_table(path, text_a=1, label=0, labels=["pos", "neg"]))
    assert rows == [
        LabelledText("good tea", None, "pos", 1),
        LabelledText("bad tea", None, "neg", 2),
    ]
    path = write(tmp_path / "MRPC" / "train.tsv",
                 f"{BOM}Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t1\t2\ta\tb\n")  # fmt: skip
    assert list(read_glue(tmp_path, "MRPC", "train")) == [LabelledText("a", "b", "equivalent", 2)]


ROWS = [("0", 'He said "hi', "ok", "1"), ("1", "fine", '"Quoted start', "0"),
        ("2", 'last "one"', "x", "1"), ("3", "plain", "y", "0")]  # fmt: skip


def test_bc_c03_quotes_in_tsv_are_characters(tmp_path):
    lines = ["\t".join(row) for row in [("index", "sentence1", "sentence2", "label"), *ROWS]]
    path = write(tmp_path / "a.tsv", "\r\n".join(lines) + "\r\n")
    rows = list(read_labelled_table(path, "sentence1", "sentence2"))
    assert [(r.text_a, r.text_b, r.label) for r in rows] == [row[1:] for row in ROWS]
    assert rows[1].text_b == '"Quoted start'


def test_quotes_in_csv_quote(tmp_path):
    text = 'text,label\n"one, two",a\n"with ""these"" and\na line end",b\nplain,a\n'
    rows = list(read_labelled_table(write(tmp_path / "a.csv", text)))
    assert [r.text_a for r in rows] == ["one, two", 'with "these" and\na line end', "plain"]
    assert [r.line for r in rows] == [2, 3, 5]
    path = write(tmp_path / "b.csv", 'text,label\nfine,a\n"never closed,b\n')
    with pytest.raises(ValueError, match=r"b\.csv, line 3: not CSV"):
        read_labelled_table(path)


def test_bc_c05_cola_has_no_header_but_in_its_test(tmp_path):
    lines = [f"gj04\t{n % 2}\t\tSentence {n}." for n in range(3)]
    for split in ("train", "dev"):
        write(tmp_path / "CoLA" / f"{split}.tsv", "\n".join(lines) + "\n")
        rows = list(read_glue(tmp_path, "CoLA", split))
        assert [r.text_a for r in rows] == ["Sentence 0.", "Sentence 1.", "Sentence 2."]
        assert [r.label for r in rows] == ["unacceptable", "acceptable", "unacceptable"]
    write(tmp_path / "CoLA" / "test.tsv", "index\tsentence\n0\tA.\n1\tB.\n2\tC.\n")
    rows = list(read_glue(tmp_path / "CoLA", "cola", "test"))
    assert [(r.text_a, r.label) for r in rows] == [("A.", None), ("B.", None), ("C.", None)]


def test_json_lines(tmp_path):
    values = [{"a": "x", "b": "y", "n": 1.5}, {"a": "ü", "b": "z", "n": "2"}]
    path = write(tmp_path / "a.jsonl", "\n".join(json.dumps(v) for v in values))
    rows = list(read_labelled_table(path, "a", "b", "n", regression=True))
    assert [(r.text_a, r.text_b, r.label) for r in rows] == [("x", "y", 1.5), ("ü", "z", 2.0)]
    for text, match in (
        ("{", "not JSON"),
        ("[1]", "object"),
        ('{"a": null}', "`a`"),
        ('{"c": 1}', "no `a`"),
    ):
        with pytest.raises(ValueError, match=rf"b\.jsonl, line 1: .*{match}"):
            read_labelled_table(write(tmp_path / "b.jsonl", text), "a", label=None)


@pytest.mark.parametrize(
    "line, match",
    [
        ("only one column", "header has 2 columns, and this row 1"),
        ("a\tb\tc", "header has 2 columns, and this row 3"),
        ("\tpos", "a text is empty"),
        ("  \tpos", "a text is empty"),
        ("fine\t", "the label is empty"),
        ("fine\tother", "must be among pos, neg: 'other'"),
    ],
)
def test_bad_rows_are_errors_or_listed(tmp_path, line, match):
    path = write(tmp_path / "a.tsv", f"text\tlabel\ngood\tpos\n{line}\nbad\tneg\n")
    with pytest.raises(ValueError, match=rf"a\.tsv, line 3: .*{match}"):
        read_labelled_table(path, labels=["pos", "neg"])
    rows = read_labelled_table(path, labels=["pos", "neg"], skip_bad_rows=True)
    assert [r.line for r in rows] == [2, 4]
    ((number, reason),) = rows.skipped
    assert number == 3
    assert f"1 rows of {path} were skipped: line 3: {reason}" in rows.summary


def test_files_that_are_none(tmp_path):
    for text, match in (
        ("", "a 'text'|no header|no examples|'text'"),
        ("text\tlabel\n", "holds no examples"),
    ):
        with pytest.raises(ValueError, match=match):
            read_labelled_table(write(tmp_path / "a.tsv", text))
    with pytest.raises(ValueError, match="cannot be read"):
        read_labelled_table(tmp_path / "none.tsv")
    (tmp_path / "b.tsv").write_bytes(b"text\tlabel\ngood\tpos\n\xff\tneg\n")
    with pytest.raises(ValueError, match=r"b\.tsv, line 3: not UTF-8"):
        read_labelled_table(tmp_path / "b.tsv")
    with pytest.raises(ValueError, match="'text' is asked for|'text'"):
        read_table(write(tmp_path / "c.tsv", "a\tb\n1\t2\n"), {"text": "text"})
    with pytest.raises(ValueError, match="told by its name"):
        read_table(write(tmp_path / "c.xyz", "a\n"), {"text": "a"})
    with pytest.raises(ValueError, match="All 1 rows are bad"):
        read_labelled_table(write(tmp_path / "d.tsv", "text\tlabel\n\tx\n"), skip_bad_rows=True)


def test_glue_files_and_their_places(tmp_path):
    with pytest.raises(ValueError, match="no file train.tsv of RTE"):
        read_glue(tmp_path, "RTE", "train")
    with pytest.raises(ValueError, match="splits are train, dev and test"):
        read_glue(tmp_path, "RTE", "validation")
    header = "index\tpromptID\tsentence1\tsentence2\tlabel1\tgold_label\n"
    for end, label in (("matched", "neutral"), ("mismatched", "contradiction")):
        write(tmp_path / "MNLI" / f"dev_{end}.tsv", f"{header}0\t1\ta\tb\tx\t{label}\n")
    assert [r.label for r in read_glue(tmp_path, "MNLI", "dev")] == ["neutral"]
    assert [r.label for r in read_glue(tmp_path, "MNLI-mm", "dev")] == ["contradiction"]
    write(tmp_path / "STS-B" / "dev.tsv", "sentence1\tsentence2\tscore\na\tb\t2.5\n")
    assert [r.label for r in read_glue(tmp_path, "sts_b", "dev")] == [2.5]
    write(tmp_path / "STS-B" / "dev.tsv", "sentence1\tsentence2\tscore\na\tb\tnan\n")
    with pytest.raises(ValueError, match="line 2: the label must be a number"):
        read_glue(tmp_path, "STS-B", "dev")


@pytest.mark.parametrize(
    "task, split, count, labelled",
    [
        ("CoLA", "train", 8551, True),
        ("CoLA", "dev", 1043, True),
        ("SST-2", "train", 67349, True),
        ("SST-2", "dev", 872, True),
        ("MRPC", "train", 3668, True),
        ("MRPC", "dev", 408, True),
        ("STS-B", "train", 5749, True),
        ("STS-B", "dev", 1500, True),
        ("STS-B", "test", 1379, False),
    ],
)
def test_real_files(shared_data, task, split, count, labelled):
    rows = read_glue(shared_data / "glue", task, split)
    assert len(rows) == count
    assert not rows.skipped
    assert all((r.label is not None) == labelled for r in rows)


def test_columns_and_labels():
    rows = [LabelledText("a", None, "10"), LabelledText("b", None, "9"), LabelledText("c")]
    assert columns_of(rows) == ["a", "b", "c"]
    assert labels_of(rows) == ["9", "10"]
    pairs = [LabelledText("a", "b", "no"), LabelledText("c", "d", "Yes")]
    assert columns_of(pairs) == (["a", "c"], ["b", "d"])
    assert labels_of(pairs) == ["Yes", "no"]


def test_tfds_that_is_not_on_disk_says_so_at_once(tmp_path, run_python):
    with pytest.raises(
        ValueError, match=r"glue/mrpc \(train\) is not among .*tfds build glue/mrpc"
    ):
        read_tfds("glue/mrpc", "train", tmp_path)
    assert "tensorflow_datasets" in sys.modules


def test_tfds_as_it_is_written(tmp_path):
    import tensorflow_datasets as tfds

    with tfds.testing.mock_data(num_examples=3):
        rows = read_tfds("glue/mrpc", "train")
    assert len(rows) == 3
    assert all(r.text_b is not None and r.label in ("not_equivalent", "equivalent") for r in rows)
