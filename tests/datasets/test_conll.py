"""CoNLL columns: every shape they come in, what is bad, documents, splits, and back to a file."""

import pytest

from keras_bert_zoo.datasets.conll import (
    TaggedSentence,
    read_conll,
    split_documents,
    tag_labels,
    write_conll,
)
from keras_bert_zoo.metrics.entities import read_columns


@pytest.fixture
def written(tmp_path):
    def write(text, name="data.txt"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def test_documents_and_sentences(written):
    path = written(
        "-DOCSTART- -X- O O\n\nEU NNP I-NP I-ORG\nrejects VBZ I-VP O\n\n\nPeter NNP B-NP I-PER\n"
        "-DOCSTART- -X- O O\n\nTom NN B-NP I-PER\nAnn NN B-NP B-PER\n-DOCSTART- -X- O O\n"
    )
    assert list(read_conll(path)) == [
        TaggedSentence(("EU", "rejects"), ("B-ORG", "O"), 3, 0),
        TaggedSentence(("Peter",), ("B-PER",), 7, 0),
        TaggedSentence(("Tom", "Ann"), ("B-PER", "B-PER"), 10, 1),
    ]
    parts = read_conll(path, tag_column=2, scheme="IOB1", skip_bad_rows=True)
    assert [s.tags for s in parts] == [("B-NP", "B-VP")]
    assert [line for line, _ in parts.skipped] == [7, 10]


@pytest.mark.parametrize(
    "text, settings",
    [
        ("a\tB-X\nb\tI-X\n\nc\tO", {}),
        ("\ufeffa B-X\r\nb I-X\r\n\r\nc O\r\n", {}),
        ("a   I-X\nb \t I-X\n  \nc  O  \n", {"separator": " "}),
        ("a N B-X  \nb N E-X\n \t\nc N O", {"scheme": "BIOES"}),
        ("1\ta\tB-X\t_\n2\tb\tI-X\t_\n\n1\tc\tO\t_", {"token_column": 1, "tag_column": 2}),
        ("a,I-X\nb,I-X\n\nc,O", {"separator": ",", "scheme": "IOB1"}),
        ("a\tB-X\t\nb\tI-X\t\n\nc\tO\t", {}),
        ("# id 1\na B-X\nb I-X\n\n# id 2\nc O", {"comments": "# "}),
    ],
)
def test_columns_and_schemes(written, text, settings):
    rows = list(read_conll(written(text), **settings))
    assert [s.words for s in rows] == [("a", "b"), ("c",)]
    assert [s.tags for s in rows] == [("B-X", "I-X"), ("O",)]


def test_files_without_tags(written):
    rows = list(read_conll(written("New York\nis\n\n\u2028x\n"), tag_column=None, separator="\t"))
    assert [(s.words, s.tags) for s in rows] == [(("New York", "is"), None), (("\u2028x",), None)]
    assert next(iter(read_conll(written("a O\nb O"), tag_column=None))).words == ("a", "b")


def test_white_space_of_unicode_is_part_of_a_word(written):
    words = ("a\u00a0b", "\u3000", "\u2028", "\x0b", '"', "#", "\u200b")
    path = written("".join(f"{word} O\n" for word in words))
    assert next(iter(read_conll(path))).words == words


@pytest.mark.parametrize(
    "text, settings, line, message",
    [
        ("a O\nb\n", {}, 2, "1 columns parted by ' ', and there must be 2, as above"),
        ("a\n", {}, 1, "must be 2 or more.*tag_column=None"),
        ("a O\n\nb N O\n", {}, 3, "3 columns"),
        ("a O\nb X\n", {}, 2, "Received: 'X'. Choose another `tag_column`"),
        ("a\tO\n\tO\n", {}, 2, "the word is empty"),
        ("a O\n\nb O\nc I-X", {"scheme": "IOB2"}, 3, "sentence that begins here.*no IOB2"),
        ("a O\n\nb S-X", {"scheme": "IOB2"}, 3, "IOB2 has the letters"),
        ("a O\nb I-X\nc B-Y", {"labels": ["O", "B-X", "I-X"]}, 3, "type of the tag 'B-Y'.*are: X"),
        (b"a O\n\xff O\n", {}, 2, "not UTF-8"),
    ],
)
def test_bad_rows_name_their_line(written, text, settings, line, message):
    path = written(text)
    with pytest.raises(ValueError, match=rf"data.txt, line {line}: .*{message}"):
        read_conll(path, **settings)


def test_a_bad_row_takes_its_sentence_with_it(written):
    path = written("a O\nb\nc\nd O\n\ne O\n\nf O O\n")
    rows = read_conll(path, skip_bad_rows=True)
    assert [s.words for s in rows] == [("e",)]
    assert [line for line, _ in rows.skipped] == [2, 8]
    with pytest.raises(ValueError, match="no examples. All 1 rows are bad"):
        read_conll(written("a\n"), skip_bad_rows=True)
    with pytest.raises(ValueError, match="holds no examples"):
        read_conll(written("-DOCSTART- O\n\n"))
    with pytest.raises(ValueError, match="cannot be read"):
        read_conll(path.with_name("none"))


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"tag_column": 0}, "two columns"),
        ({"scheme": "BILOU"}, "Received: 'BILOU'"),
        ({"separator": ""}, "one character or more"),
    ],
)
def test_bad_settings(written, settings, message):
    with pytest.raises(ValueError, match=message):
        read_conll(written("a O"), **settings)


def test_labels():
    first = TaggedSentence(("a", "b"), ("B-X", "O"), 1, 0)
    second = TaggedSentence(("a",), ("B-A",), 4, 0)
    assert tag_labels([first, second]) == ["O", "B-A", "I-A", "B-X", "I-X"]
    assert tag_labels([TaggedSentence(("a",), None, 1, 0)]) == ["O"]


def test_written_predictions_are_read_by_the_scorer(tmp_path):
    path = tmp_path / "p.txt"
    gold, predicted = [["B-X", "O"], ["O"]], [["O", "O"], ["B-X"]]
    for word in ("b", "New York"):
        write_conll(path, [["a", word], ["\u00a0"]], gold, predicted)
        assert read_columns(path) == (gold, predicted)
        assert [s.words for s in read_conll(path)] == [("a", word), ("\u00a0",)]
    with pytest.raises(ValueError, match="Sentence 1 has"):
        write_conll(path, [["a"], [""]], [["O"], ["O"]])
    with pytest.raises(ValueError):
        write_conll(path, [["a", "b"]], [["O"]])
    assert next(s.words for s in read_conll(path)) == ("a", "New York")


def documents(count):
    return [
        TaggedSentence((f"w{number}", str(place)), ("O", "O"), 1, number)
        for number in range(count)
        for place in range(number % 3 + 1)
    ]


def test_splits_are_by_document_and_do_not_move():
    sentences = documents(50)
    parts = split_documents(sentences)
    names = [{s.document for s in part} for part in parts]
    assert [len(n) for n in names] == [40, 5, 5]
    assert sorted((s for part in parts for s in part), key=sentences.index) == sentences
    # The order in the file is of no account; the seed is.
    again = split_documents(sorted(sentences, key=lambda s: -s.document))
    assert [{s.document for s in part} for part in again] == names
    assert [{s.document for s in part} for part in split_documents(sentences, seed=1)] != names
    assert names[2] == {1, 5, 24, 40, 42}


def test_equal_documents_stay_together_and_single_ones_are_cut():
    twins = [TaggedSentence(("same",), ("O",), n, n) for n in range(6)]
    others = [TaggedSentence((f"w{n}",), ("O",), n, n) for n in range(6, 12)]
    for seed in range(5):
        parts = split_documents(twins + others, (0.5, 0.5), seed)
        assert sum(any(s.words == ("same",) for s in part) for part in parts) == 1
    alone = [TaggedSentence((f"w{n}",), ("O",), n, 0) for n in range(10)]
    assert [len(part) for part in split_documents(alone)] == [8, 1, 1]
    for shares in ((0.5, 0.2), (1.0, 0.0), ()):
        with pytest.raises(ValueError, match="sum 1"):
            split_documents(alone, shares)


def test_wikigold(shared_data):
    rows = read_conll(shared_data / "wikigold" / "wikigold.conll.txt", scheme="IOB1")
    assert len(rows) == 1696
    assert sum(len(s.words) for s in rows) == 39_007
    assert len({s.document for s in rows}) == 145
    assert tag_labels(rows)[1::2] == ["B-LOC", "B-MISC", "B-ORG", "B-PER"]
    parts = split_documents(rows)
    assert [len({s.document for s in part}) for part in parts] == [117, 14, 14]
