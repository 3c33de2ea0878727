"""Lower-casing, accents and ideographs switched one by one, against the rules in plain Python."""

import random

import pytest
from reference_wordpiece import (
    CODE_POINTS,
    OTHER_SWITCHES,
    ReferenceTokenizer,
    letters,
    switch_id,
)

from keras_bert_zoo.text.unicode_table import build_unicode_table
from keras_bert_zoo.text.vocabulary import SPECIAL_TOKENS, read_vocabulary
from keras_bert_zoo.text.wordpiece import WordPieceTokenizer


@pytest.fixture(params=OTHER_SWITCHES, ids=switch_id)
def switches(request):
    return request.param


def both(vocabulary, switches, limit=100):
    return (
        WordPieceTokenizer(vocabulary, max_characters_per_word=limit, **switches),
        ReferenceTokenizer(vocabulary, limit=limit, **switches),
    )


def differences(pair, texts):
    """The texts whose ids or spans differ, with both."""
    tokenizer, reference = pair
    ids = tokenizer(texts).to_list()
    spans = tokenizer.tokenize_with_spans(texts)
    rows = [x.to_list() for x in (spans.token_ids, spans.char_starts, spans.char_ends)]
    found = []
    for text, plain, *columns in zip(texts, ids, *rows, strict=True):
        expected = [(reference.ids[t.text], t.start, t.end) for t in reference.tokens(text)]
        actual = list(zip(*columns, strict=True))
        if actual != expected or plain != [number for number, *_ in expected]:
            found.append((text, actual, expected))
    return found


def test_every_code_point(switches):
    characters = [chr(number) for number in CODE_POINTS]
    normal = letters(characters, switches["lowercase"], switches["strip_accents"])
    pair = both([*SPECIAL_TOKENS, *normal, *("##" + c for c in normal)], switches)
    assert differences(pair, [f"a{c}b {c}" for c in characters]) == []


def test_neighbours(switches):
    """Random strings of what the rules treat specially: sigmas, marks, ideographs, cases."""
    odd = (
        "ΣΣΣσςAaİıßÀéK'.·:≠`ͅ\u0301\u0327\u05b0\u034f\u094d\u0489\u302e\u302f\U00016ff0\U0001d165"
        "\U0001d16d\U0001d160\u1715\u1baa\u0bca\u0ccb\u0cc0차각\u1100\u1161\u11a8\0\x85\xad\u200d"
        "  \t\u2028\u3000中中\uf900\U0002f800\U0002b820〇ｶ\ufffd\ue000\U00010400\U0001e900\u0378"
    )
    few = ["ΣΣσA1'.\u0301\u0345\xad 中[ªʰ", "e \u302e\U00016ff0\U0001d165\u1715\u0301\u0ccb\xadé中"]
    draw = random.Random(3)
    texts = ["".join(draw.choices([odd, *few][i % 3], k=draw.randint(0, 14))) for i in range(6000)]
    normal = letters(odd + "".join(few), switches["lowercase"], switches["strip_accents"])
    pieces = {"".join(draw.choices(normal, k=draw.randint(2, 3))) for _ in range(300)}
    vocabulary = {*normal, *pieces, *("##" + c for c in [*normal[1::2], *pieces])}
    pair = both([*SPECIAL_TOKENS, *sorted(vocabulary)], switches, limit=9)
    assert differences(pair, texts) == []


@pytest.mark.parametrize("text", ["austen-emma", "zh-honglou"])
def test_real_texts(shared_data, switches, text):
    vocabulary = read_vocabulary(shared_data / "vocab/bert-base-multilingual-cased/vocab.txt")
    lines = (shared_data / f"text/{text}.txt").read_text(encoding="utf-8").split("\n")[:3000]
    pair = both(vocabulary, switches)
    ids = pair[0](lines).to_list()
    assert ids == [pair[1](line) for line in lines]
    assert sum(map(len, ids)) > 20_000


@pytest.mark.parametrize(
    ("switches", "expected"),
    [
        ({}, ["cafe", "i", "中", "中"]),
        ({"strip_accents": False}, ["café", "i̇", "中", "中"]),
        ({"lowercase": False, "strip_accents": True}, ["CAFE", "I", "中", "中"]),
        ({"lowercase": False}, ["CAFÉ", "İ", "中", "中"]),
        ({"split_ideographs": False}, ["cafe", "i", "中中"]),
    ],
    ids=str,
)
def test_what_the_switches_do(switches, expected):
    words = ["cafe", "café", "CAFE", "CAFÉ", "i", "i̇", "I", "İ", "中", "中中"]
    tokenizer = WordPieceTokenizer([*SPECIAL_TOKENS, *words], **switches)
    assert [tokenizer.id_to_token(i) for i in tokenizer("CAFÉ İ 中中").numpy()] == expected


@pytest.mark.parametrize("lowercase", [True, False])
def test_none_is_as_lower_casing(lowercase):
    table, other = build_unicode_table(lowercase), build_unicode_table(lowercase, lowercase, True)
    assert table is other
