"""SQuAD files: what is read, and how errors say where they are."""

import json

import pytest

from keras_bert_zoo.datasets.squad import Question, read_squad

CONTEXT = "The toll was 2\u00a0500 crowns in 1911."


def question(key="q", answers=(("2\u00a0500", 13),), **more):
    rows = [{"text": text, "answer_start": start} for text, start in answers]
    return {"id": key, "question": "How much ?", "answers": rows} | more


def write(path, *questions, context=CONTEXT, version="1.1"):
    paragraphs = [{"context": context, "qas": list(questions)}]
    content = {"version": version, "data": [{"title": "Tolls", "paragraphs": paragraphs}]}
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


@pytest.fixture
def path(tmp_path):
    return tmp_path / "file.json"


def test_bc_q04_an_answer_is_where_its_offset_says(path):
    (read,) = read_squad(write(path, question()))
    assert read == Question("q", "How much ?", CONTEXT, (("2\u00a0500", 13),), False, "Tolls")
    lower = {"context": "The city of paris hosts."}
    bad, good = question("bad", [("Paris", 12)]), question("good", [("paris", 12)])
    with pytest.raises(ValueError) as error:
        read_squad(write(path, good, bad, **lower))
    said = str(error.value)
    assert said.startswith(f"{path}: data[0].paragraphs[0].qas[1]: question 'bad': its answer")
    assert "'Paris' is not at 12 of its context; 'paris' is" in said and "skip_bad_rows" in said
    read = read_squad(write(path, good, bad, **lower), skip_bad_rows=True)
    assert [example.id for example in read] == ["good"] and len(read) == 1
    ((key, reason),) = read.skipped
    assert key == "bad" and "data[0].paragraphs[0].qas[1]" in reason
    assert read.summary.startswith(f"1 questions of {path} were skipped: bad: ")
    with pytest.raises(ValueError, match=r"holds no questions. 1 questions.*'Paris' is not at"):
        read_squad(write(path, bad, **lower), skip_bad_rows=True)


@pytest.mark.parametrize(
    "rows, reason",
    [
        ([question(), question()], r"qas\[1\]: question 'q': an earlier question has this id"),
        ([question(answers=[("", 3)])], r"the answer answers\[0\] is empty"),
        ([question(answers=[("1911", -5)])], "'1911' is not at -5"),
        ([question(answers=[("1911", 400)])], "'1911' is not at 400"),
        ([question(is_impossible=True)], "marked as impossible, and has the answer '2"),
    ],
)
def test_bad_questions_are_errors_or_listed(path, rows, reason):
    with pytest.raises(ValueError, match=reason):
        read_squad(write(path, *rows))
    other = question("other")
    read = read_squad(write(path, *rows, other), skip_bad_rows=True)
    assert [key for key, _ in read.skipped] == ["q"] and read.examples[-1].id == "other"


@pytest.mark.parametrize(
    "content, place",
    [
        ("[]", r"the file must be an object with 'data', and is \[\]"),
        ('{"questions": 1}', "data is missing; there is: 'questions'"),
        ('{"data": {}}', "data must be a list, and is {}"),
        ('{"data": [3]}', r"data\[0\] must be an object with 'paragraphs', and is 3"),
        ('{"data": [{"paragraphs": [{"qas": []}]}]}', r"data\[0\].paragraphs\[0\].context is miss"),
        (
            '{"data": [{"paragraphs": []}, {"paragraphs": [{"context": null, "qas": []}]}]}',
            r"data\[1\].paragraphs\[0\].context must be a string, and is None",
        ),
        (
            '{"data": [{"paragraphs": [{"context": "a", "qas": [{"id": 7}]}]}]}',
            r"data\[0\].paragraphs\[0\].qas\[0\].id must be a string, and is 7",
        ),
        (
            '{"data": [{"paragraphs": [{"context": "a", "qas": [{"id": "7"}]}]}]}',
            r"qas\[0\].question is missing; there is: 'id'",
        ),
        ('{"data": [{"paragraphs": [{"context": "\\ud800", "qas": []}]}]}', "surrogate"),
        ('{"data": []}', "holds no questions"),
        ('{"data":\n [', "line 2: not JSON"),
    ],
)
def test_a_malformed_file_is_told_with_its_place(path, content, place):
    path.write_text(content, encoding="utf-8")
    for skip in (False, True):
        with pytest.raises(ValueError, match=place) as error:
            read_squad(path, skip_bad_rows=skip)
        assert str(path) in str(error.value)


@pytest.mark.parametrize(
    "field, value, message",
    [
        ("answers", "x", r"qas\[0\].answers must be a list"),
        ("answers", [{"text": "a"}], r"answers\[0\].answer_start is missing"),
        ("answers", [{"text": 5, "answer_start": 1}], r"answers\[0\].text must be a string"),
        ("answers", [{"text": "T", "answer_start": True}], "must be a whole number, and is True"),
        ("answers", [{"text": "T", "answer_start": "0"}], "must be a whole number, and is '0'"),
        ("is_impossible", "no", "must be true or false, and is 'no'"),
        ("question", 1, r"qas\[0\].question must be a string"),
    ],
)
def test_malformed_questions(path, field, value, message):
    with pytest.raises(ValueError, match=message):
        read_squad(write(path, question() | {field: value}), skip_bad_rows=True)


def test_a_file_that_is_not_there_or_not_text(path):
    with pytest.raises(ValueError, match="file.json cannot be read: No such file"):
        read_squad(path)
    path.write_bytes(b'{"data": "\xff"}')
    with pytest.raises(ValueError, match="line 1: not UTF-8"):
        read_squad(path)


def test_files_without_answers(path):
    bare = {"id": "bare", "question": "How ?"}
    read = read_squad(write(path, bare, question("none", answers=())))
    assert [(e.answers, e.is_impossible) for e in read] == [((), False), ((), False)]
    marked = question("marked", answers=(), is_impossible=True, plausible_answers=[])
    read = read_squad(write(path, bare, question("none", answers=()), marked, version="v2.0"))
    assert [(e.answers, e.is_impossible) for e in read] == [((), False), ((), True), ((), True)]
    assert read.version == "v2.0" and not read.skipped and read.summary == ""


def test_a_byte_order_mark(path):
    write(path, question())
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert len(read_squad(path)) == 1


def test_the_shared_files(shared_data):
    folder = shared_data / "squad"
    first = read_squad(folder / "xquad.en.json")
    assert (len(first), first.version) == (1190, "1.1")
    assert all(len(e.answers) == 1 and not e.is_impossible for e in first)
    second = read_squad(folder / "dev-subset-normans-complexity.json")
    assert len(second) == 626 and not second.skipped
    assert sum(e.is_impossible for e in second) == 626 - (1483 - 1190)
    assert all(bool(e.answers) != e.is_impossible for e in second)
