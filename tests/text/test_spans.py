"""Where tokens stand in the original string, where normalising moves, drops or adds characters."""

import pytest

from keras_bert_zoo.text.vocabulary import SPECIAL_TOKENS
from keras_bert_zoo.text.wordpiece import WordPieceTokenizer


@pytest.fixture(scope="module")
def tokenizer(shared_data):
    return WordPieceTokenizer(shared_data / "vocab/bert-base-uncased/vocab.txt")


def cut(tokenizer, text):
    """(token, its text) for each token, the bytes held to say the same as the characters."""
    spans = tokenizer.tokenize_with_spans(text)
    tokens = [tokenizer.id_to_token(int(i)) for i in spans.token_ids]
    texts = [text[a:b] for a, b in zip(spans.char_starts, spans.char_ends, strict=True)]
    encoded = text.encode()
    in_bytes = [
        encoded[a:b].decode() for a, b in zip(spans.byte_starts, spans.byte_ends, strict=True)
    ]
    assert in_bytes == texts
    return list(zip(tokens, texts, strict=True))


def test_offsets_after_other_characters(tokenizer):  # BC-Q01
    text = "Zoë’s café in Málaga sells tea"
    spans = tokenizer.tokenize_with_spans(text)
    tokens = [tokenizer.id_to_token(int(i)) for i in spans.token_ids]
    starts, ends = spans.char_starts.numpy().tolist(), spans.char_ends.numpy().tolist()
    chars = {token: (a, b) for token, a, b in zip(tokens, starts, ends, strict=True)}
    expected = {"zoe": (0, 3), "cafe": (6, 10), "malaga": (14, 20), "tea": (27, 30)}
    assert {token: chars[token] for token in expected} == expected
    byte_starts = dict(zip(tokens, spans.byte_starts.numpy().tolist(), strict=True))
    assert (byte_starts["malaga"], byte_starts["tea"]) == (18, 32)


def test_long_word_is_unknown_whole(tokenizer):  # BC-T07
    spans = tokenizer.tokenize_with_spans("x" * 120 + " end")
    assert spans.token_ids.numpy().tolist() == [tokenizer.unk_id, tokenizer.token_to_id("end")]
    assert spans.char_starts.numpy().tolist() == [0, 121]
    assert spans.char_ends.numpy().tolist() == [120, 124]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cafe\u0301 x", [("cafe", "cafe\u0301"), ("x", "x")]),  # The accent stays with its letter.
        ("e\u0301\u0327x", [("ex", "e\u0301\u0327x")]),
        ("\u0301tea", [("tea", "tea")]),  # One that has no letter is nobody's.
        ("中\u0301 tea", [("中", "中\u0301"), ("tea", "tea")]),
        ("tea \u0301cup", [("tea", "tea"), ("cup", "cup")]),
        ("te\0a", [("tea", "te\0a")]),  # Deleted inside of a word, but not after it.
        ("tea\u200b cup", [("tea", "tea"), ("cup", "cup")]),
        ("\ufefftea", [("tea", "tea")]),
        ("차", [("ᄎ", "차"), ("##ᅡ", "차")]),  # One character, two pieces.
        ("İSTZ", [("ist", "İST"), ("##z", "Z")]),
        ("a≠b", [("a", "a"), ("=", "≠"), ("b", "b")]),
        ("book[MASK]", [("book", "book"), ("[", "["), ("mask", "MASK"), ("]", "]")]),
        ("\U0001f600 tea", [("[UNK]", "\U0001f600"), ("tea", "tea")]),
        ("", []),
        (" \0\u0301 ", []),
    ],
)
def test_what_a_token_covers(tokenizer, text, expected):
    assert cut(tokenizer, text) == expected


def test_rows_do_not_touch(tokenizer):
    # A mark that begins a row belongs to no letter of the row before.
    texts = ["tea", "\u0301cup", "", "e\u0301", "Σ", "Σa"]
    spans = tokenizer.tokenize_with_spans(texts)
    assert spans.char_starts.to_list()[:4] == [[0], [1], [], [0]]
    assert spans.char_ends.to_list()[:4] == [[3], [4], [], [2]]
    assert spans.byte_ends.to_list()[:4] == [[3], [5], [], [3]]
    assert spans.token_ids.to_list() == tokenizer(texts).to_list()


def test_special_token_covers_its_literal(shared_data):
    tokenizer = WordPieceTokenizer(
        shared_data / "vocab/bert-base-uncased/vocab.txt", special_tokens_in_text=True
    )
    expected = [("cafe", "Café"), ("[MASK]", "[MASK]"), ("##s", "s")]
    text = "Café[MASK]s [Mask] [SEP]"
    found = cut(tokenizer, text)
    assert found[:2] == expected[:2]
    assert found[2] == ("s", "s")
    assert found[3:] == [("[", "["), ("mask", "Mask"), ("]", "]"), ("[SEP]", "[SEP]")]


def test_cased_marks_are_pieces():
    tokens = [*SPECIAL_TOKENS, "cafe", "##\u0301"]
    tokenizer = WordPieceTokenizer(tokens, lowercase=False)
    assert cut(tokenizer, "cafe\u0301") == [("cafe", "cafe"), ("##\u0301", "\u0301")]


def test_empty_batches(tokenizer):
    for texts in ([], ["", " "]):
        spans = tokenizer.tokenize_with_spans(texts)
        assert all(field.to_list() == [[]] * len(texts) for field in spans)
