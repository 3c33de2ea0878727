"""Text files to documents, and paragraphs to sentences."""

import pytest

from keras_bert_zoo.datasets.documents import read_documents, split_sentences


def read(*arguments, **settings):
    return read_documents(*arguments, **settings, verbose=False)


@pytest.fixture
def write(tmp_path):
    def write_file(name, content):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write_file


def test_a_sentence_a_line(write):
    path = write("a.txt", "\n one two \nthree.\n\n \n\nfour\n\tfive\n\n")
    assert read(path) == [["one two", "three."], ["four", "five"]]


def test_line_ends_and_byte_order_mark(write):
    path = write("a.txt", b"\xef\xbb\xbfone\r\ntwo\r\n\r\nthree\rfour\r\rfive\xe2\x80\xa8six")
    assert read(path) == [["one", "two"], ["three", "four"], ["five\u2028six"]]


def test_paragraphs(write):
    text = "The cat sat. It\npurred.\n\nThen it slept!\n\n\nA new chapter. \n\n\n\n\nThe end"
    path = write("a.txt", text)
    assert read(path, format="paragraphs") == [
        ["The cat sat.", "It purred.", "Then it slept!"],
        ["A new chapter."],
        ["The end"],
    ]


def test_files_end_documents_and_come_in_order(write, tmp_path):
    for name, text in (("b.txt", "b"), ("a.txt", "a\n"), ("c.md", "c"), ("in/d.txt", "d")):
        write(name, text)
    write("empty.txt", "")
    write("blank.txt", "\n \r\n")
    assert read(f"{tmp_path}/*.txt") == [["a"], ["b"]]
    assert read(str(tmp_path / "**" / "*.txt")) == [["a"], ["b"], ["d"]]
    assert read([tmp_path / "c.md", f"{tmp_path}/[ac].*"]) == [["c"], ["a"]]


def test_a_bracket_in_a_name_is_no_pattern(write):
    assert read(write("a[1].txt", "one")) == [["one"]]


def test_bytes_that_are_not_utf8(write):
    path = write("a.txt", b"\xef\xbb\xbfone\ntwo\nb\xe9b\xe9\n")
    with pytest.raises(ValueError, match=r"a\.txt, line 3: byte 0xe9 .*errors='replace'"):
        read(path)
    assert read(path, errors="replace") == [["one", "two", "b\ufffdb\ufffd"]]


def test_nothing_to_read(write, tmp_path):
    with pytest.raises(ValueError, match=r"No file matches '.*none\*\.txt'"):
        read(f"{tmp_path}/none*.txt")
    with pytest.raises(ValueError, match=r"It is a folder.*\*\.txt"):
        read(tmp_path)
    with pytest.raises(ValueError, match="No text in the 1 files"):
        read(write("a.txt", "\n"))
    with pytest.raises(ValueError, match="paths is empty"):
        read([])
    with pytest.raises(ValueError, match="format must be one of"):
        read("a.txt", format="lines")


def test_google_sample_text(shared_data):
    documents = read(shared_data / "text" / "sample_text.txt")
    assert len(documents) == 3 and sum(map(len, documents)) == 31


@pytest.mark.parametrize(
    "text, sentences",
    [
        ("", []),
        ("One", ["One"]),
        ("One. Two!  Three?\nFour…", ["One.", "Two!", "Three?", "Four…"]),
        ('He said "Go." Then: (Why?) No.', ['He said "Go."', "Then: (Why?)", "No."]),
        ("Dr. Ada met J. S. Mill, e.g. Twice.", ["Dr. Ada met J. S. Mill, e.g. Twice."]),
        ("At 3.14 p.m. it rained. 12 men came.", ["At 3.14 p.m. it rained.", "12 men came."]),
        ("今天下雨。我們回家！「好。」他說", ["今天下雨。", "我們回家！", "「好。」", "他說"]),
        ("Émile left. Étienne stayed.", ["Émile left.", "Étienne stayed."]),
    ],
)
def test_split_sentences(text, sentences):
    assert split_sentences(text) == sentences
