"""Vocabulary files: what is a token, what is refused, and what is learnt."""

import json
import sys

import pytest

from keras_bert_zoo.text.vocabulary import (
    SPECIAL_TOKENS,
    check_vocabulary,
    learn_vocabulary,
    read_vocabulary,
    write_vocabulary,
)
from keras_bert_zoo.text.wordpiece import WordPieceTokenizer

SPECIAL = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n"


@pytest.mark.parametrize(
    ("text", "tea"),
    [
        pytest.param((SPECIAL + "tea\ncup\n").replace("\n", "\r\n"), 5, id="a-crlf"),
        pytest.param(SPECIAL + "tea\ncup", 5, id="b-no-final-newline"),
        pytest.param(SPECIAL + "\u2028\ntea\ncup\n", 6, id="c-line-separator"),
        pytest.param(SPECIAL + "\x85\ntea\ncup\n", 6, id="c-next-line"),
        pytest.param(SPECIAL + "\ntea\ncup\n", 6, id="d-empty-line"),
        pytest.param("\ufeff" + SPECIAL + "tea\ncup\n", 5, id="e-byte-order-mark"),
        pytest.param(SPECIAL + "tea\ncup\n\n", 5, id="g-two-final-newlines"),
        pytest.param(SPECIAL + "tea\ncup\r\n\r\n\n", 5, id="several-final-newlines"),
        pytest.param(SPECIAL + "\x0b\n\x0c\n\x1c\ntea\ncup\n", 8, id="other-separators"),
        pytest.param(SPECIAL + " \n\u3000\ntea\ncup\n", 7, id="white-space-tokens"),
        pytest.param(SPECIAL + "a\rb\ntea\ncup\n", 6, id="carriage-return-inside"),
    ],
)
def test_line_number_is_id(tmp_path, text, tea):  # BC-T12
    path = tmp_path / "vocab.txt"
    path.write_bytes(text.encode())
    tokens = read_vocabulary(path)
    assert tokens[0] == "[PAD]"
    assert (tokens.index("tea"), tokens.index("cup"), len(tokens)) == (tea, tea + 1, tea + 2)
    assert WordPieceTokenizer(path)("tea cup").numpy().tolist() == [tea, tea + 1]
    # And written as it was read.
    write_vocabulary(tmp_path / "again.txt", tokens)
    assert read_vocabulary(tmp_path / "again.txt") == tokens


def test_duplicates_are_refused(tmp_path):  # BC-T12 (f)
    path = tmp_path / "vocab.txt"
    path.write_text(SPECIAL + "tea\ncup\ntea\n")
    with pytest.raises(ValueError, match=r"vocab\.txt.*'tea' twice.*lines 6 and 8"):
        read_vocabulary(path)
    with pytest.raises(ValueError, match=r"'tea'.*twice.*ids 5 and 6"):
        WordPieceTokenizer([*SPECIAL_TOKENS, "tea", "tea"])


@pytest.mark.parametrize("content", [b"", b"\n\n", b"\xef\xbb\xbf"])
def test_empty_files_are_refused(tmp_path, content):
    path = tmp_path / "vocab.txt"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"vocab\.txt holds no tokens"):
        read_vocabulary(path)


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "spiece.model"
    path.write_bytes(b"\x0a\x0e\x80\xff")
    with pytest.raises(ValueError, match=r"spiece\.model is not a text file in UTF-8"):
        read_vocabulary(path)


@pytest.mark.parametrize("missing", SPECIAL_TOKENS)
def test_special_tokens_are_required(missing):
    tokens = [token for token in SPECIAL_TOKENS if token != missing] + ["tea"]
    with pytest.raises(ValueError, match=rf"5 tokens lacks \{missing[:-1]}\]"):
        WordPieceTokenizer(tokens)
    check_vocabulary(tokens, required=["tea"])


def test_another_unknown_token():
    tokens = ["[PAD]", "<unk>", "[CLS]", "[SEP]", "[MASK]", "tea"]
    tokenizer = WordPieceTokenizer(tokens, unknown_token="<unk>")
    assert tokenizer("tea rain").numpy().tolist() == [5, 1]
    assert tokenizer.unk_id == 1
    with pytest.raises(ValueError, match=r"lacks \[UNK\]"):
        WordPieceTokenizer(tokens)


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (["tea", "a\nb"], "Token 1, 'a.nb', has a line end"),
        (["tea", "a\r", "b"], "Token 1, 'a.r', has a line end"),
        (["tea", ""], "nor end with an empty token"),
        (["\ufefftea"], "can neither start with"),
        (["tea", 7], "Token 1 is no str: int 7"),
        (["tea", "\ud800"], "Token 1 holds half a surrogate pair"),
        ([], "empty"),
    ],
)
def test_tokens_that_a_file_cannot_hold(tmp_path, tokens, message):
    with pytest.raises(ValueError, match=message):
        write_vocabulary(tmp_path / "vocab.txt", tokens)
    assert not (tmp_path / "vocab.txt").exists()


def test_tokens_too_long_for_the_operation():
    long = "\U00010428" * 65  # 260 bytes
    tokens = [*SPECIAL_TOKENS, long, "\U00010428", "##\U00010428"]
    with pytest.raises(ValueError, match=r"Token 5, .* longer than 256 bytes.*now 100"):
        WordPieceTokenizer(tokens)
    # It could match nothing, so it is harmless.
    tokenizer = WordPieceTokenizer(tokens, max_characters_per_word=64)
    assert tokenizer(["\U00010428" * 2, long]).to_list() == [[6, 7], [1]]


# --- Learning ------------------------------------------------------------------------------------

TEXTS = [
    "Tea and café, tea and cake; teas, teacups, teacakes!",
    "The unteachable teacher teaches the teaching of ΟΔΟΣ and ΟΔΟΣ.",
    "Rain\x00bow rainbow raincoat rain 中国 中国 cups",
] * 5


@pytest.fixture
def tokenizers():
    return pytest.importorskip("tokenizers")


def test_learning_gives_what_was_asked(tokenizers):
    tokens = learn_vocabulary(TEXTS, 100)
    assert len(tokens) == 100
    assert tokens[:5] == list(SPECIAL_TOKENS)
    check_vocabulary(tokens)
    tokenizer = WordPieceTokenizer(tokens)
    assert tokenizer.unk_id not in tokenizer(TEXTS).values.numpy()
    # Normalised by our rules: the final sigma, the deleted character, the ideographs.
    assert any("ς" in token for token in tokens)
    assert not any("\0" in token or "é" in token or token == "中国" for token in tokens)
    cased = learn_vocabulary(TEXTS, 100, lowercase=False)
    assert any("é" in token for token in cased)
    assert any("T" in token for token in cased)


def test_learning_does_not_depend_on_order(tokenizers):
    tokens = learn_vocabulary(TEXTS, 100)
    assert learn_vocabulary(iter(TEXTS[::-1]), 100) == tokens


def test_learning_is_the_same_in_every_process(tokenizers, shared_data, run_python):
    # On real text there are ties by the hundred, which the trainer alone breaks at random.
    path = shared_data / "text/carroll-alice.txt"
    lines = path.read_text(encoding="utf-8").split("\n")
    here = [learn_vocabulary(lines, 2000) for _ in range(2)]
    assert here[0] == here[1]
    source = (
        "import sys, json\n"
        "from keras_bert_zoo.text.vocabulary import learn_vocabulary\n"
        "lines = open(sys.argv[1], encoding='utf-8').read().split('\\n')\n"
        "print(json.dumps(learn_vocabulary(lines, 2000)))\n"
    )
    environment = {"PYTHONHASHSEED": "1", "RAYON_NUM_THREADS": "1"}
    printed = run_python(source, path, env=environment)
    assert json.loads(printed.strip().split("\n")[-1]) == here[0]


def test_learning_too_much_or_too_little(tokenizers):
    with pytest.raises(ValueError, match=r"a vocabulary of (\d+) tokens, 5000 were asked for") as e:
        learn_vocabulary(TEXTS, 5000)
    most = int(str(e.value).split("at most ")[1].split(",")[0])
    assert len(learn_vocabulary(TEXTS, most)) == most
    with pytest.raises(ValueError, match=r"size=20 is too small.*take \d+ tokens"):
        learn_vocabulary(TEXTS, 20)
    with pytest.raises(ValueError, match=r"a vocabulary of 5 tokens"):
        learn_vocabulary([], 6)


def test_learning_keeps_the_most_frequent_characters(tokenizers):
    texts = ["a" * 9 + "b" * 6 + "c" * 3 + "d"]
    tokens = learn_vocabulary(texts, 9, min_frequency=99, max_alphabet=2)
    assert tokens == [*SPECIAL_TOKENS, "a", "b", "##a", "##b"]


def test_learning_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(ImportError, match=r"keras-bert-zoo\[examples\]"):
        learn_vocabulary(TEXTS, 100)
