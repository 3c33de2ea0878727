"""Token ids and spans against Hugging Face's `tokenizers`, with its known differences."""

import unicodedata

import numpy as np
import pytest
from reference_wordpiece import CODE_POINTS, CONTEXTS, OTHER_SWITCHES, letters, switch_id

from keras_bert_zoo.text.vocabulary import SPECIAL_TOKENS, read_vocabulary
from keras_bert_zoo.text.wordpiece import WordPieceTokenizer


@pytest.fixture
def their_pair(shared_data):
    """Makes our tokenizer and theirs on one vocabulary."""
    tokenizers = pytest.importorskip("tokenizers")

    def make(name, lowercase):
        path = shared_data / "vocab" / name / "vocab.txt"
        theirs = tokenizers.BertWordPieceTokenizer(str(path), lowercase=lowercase)
        return WordPieceTokenizer(path, lowercase=lowercase), theirs

    return make


@pytest.mark.parametrize(
    ("text", "name", "lowercase"),
    [
        ("austen-emma", "bert-base-uncased", True),
        ("austen-emma", "bert-base-multilingual-cased", False),
        ("zh-honglou", "bert-base-chinese", True),
    ],
)
def test_real_texts_against_tokenizers(their_pair, shared_data, name, lowercase, text):
    ours, theirs = their_pair(name, lowercase)
    lines = (shared_data / "text" / f"{text}.txt").read_text(encoding="utf-8").split("\n")
    encodings = theirs.encode_batch(lines, add_special_tokens=False)
    spans = ours.tokenize_with_spans(lines)
    assert spans.token_ids.row_lengths().numpy().tolist() == [len(e.ids) for e in encodings]
    assert spans.token_ids.values.numpy().tolist() == [x for e in encodings for x in e.ids]
    offsets = np.array([offset for e in encodings for offset in e.offsets])
    assert np.array_equal(spans.char_starts.values, offsets[:, 0])
    assert np.array_equal(spans.char_ends.values, offsets[:, 1])


# Assigned since Unicode 8.0, which the categories of `tokenizers` are of, or put into another
# category: new combining marks, punctuation and format characters. (With Unicode 14, Python 3.11.)
NEWER_THAN_THEIRS = """
    61D 7FD 890-891 898-89F 8CA-8E2 9FD-9FE A76 AFA-AFF B55 C04 C3C C77 C84 D00 D3B-D3C D81 EBA
    166D 1734 180F 1885-1886 1ABF-1ACE 1B7D-1B7E 1DF6-1DFB 2E43-2E4F 2E52-2E5D A82C A8C5 A8FF A9BD
    10D24-10D27 10EAB-10EAD 10F46-10F50 10F55-10F59 10F82-10F89 11070 11073-11074 110C2 110CD 111C9
    111CF 1123E 1133B 11438-1143F 11442-11444 11446 1144B-1144F 1145A-1145B 1145D-1145E 11660-1166C
    116B9 1182F-11837 11839-1183B 1193B-1193C 1193E 11943-11946 119D4-119D7 119DA-119DB 119E0 119E2
    11A01-11A0A 11A33-11A38 11A3B-11A47 11A51-11A56 11A59-11A5B 11A8A-11A96 11A98-11A9C 11A9E-11AA2
    11C30-11C36 11C38-11C3D 11C3F 11C41-11C45 11C70-11C71 11C92-11CA7 11CAA-11CB0 11CB2-11CB3
    11CB5-11CB6 11D31-11D36 11D3A 11D3C-11D3D 11D3F-11D45 11D47 11D90-11D91 11D95 11D97 11EF3-11EF4
    11EF7-11EF8 11FFF 12FF1-12FF2 13430-13438 16E97-16E9A 16F4F 16FE2 16FE4 1CF00-1CF2D 1CF30-1CF46
    1E000-1E006 1E008-1E018 1E01B-1E021 1E023-1E024 1E026-1E02A 1E130-1E136 1E2AE 1E2EC-1E2EF
    1E944-1E94A 1E95E-1E95F
"""


def known_differences():
    """Code points of properties they do not know, ideographs they miss, and what they delete."""
    newer = set()
    for span in NEWER_THAN_THEIRS.split():
        first, last = int(span.split("-")[0], 16), int(span.split("-")[-1], 16)
        newer |= set(range(first, last + 1))
    deleted = {c for c in CODE_POINTS if unicodedata.category(chr(c)) in ("Co", "Cn")}
    return newer, set(range(0x2B820, 0x2B920)), deleted


@pytest.mark.skipif(
    unicodedata.unidata_version != "14.0.0", reason="the differences are listed for Unicode 14"
)
@pytest.mark.parametrize(
    ("name", "lowercase", "contexts"),
    [("bert-base-uncased", True, CONTEXTS), ("bert-base-multilingual-cased", False, CONTEXTS[1:2])],
)
def test_every_code_point_against_tokenizers(their_pair, name, lowercase, contexts):
    ours, theirs = their_pair(name, lowercase)
    differ = set()
    for context in contexts:
        texts = [context.format(chr(c), chr(c)) for c in CODE_POINTS]
        ids = ours(texts)
        values, splits = ids.values.numpy().tolist(), ids.row_splits.numpy().tolist()
        encodings = theirs.encode_batch(texts, add_special_tokens=False)
        for i, (code_point, encoding) in enumerate(zip(CODE_POINTS, encodings, strict=True)):
            if values[splits[i] : splits[i + 1]] != encoding.ids:
                differ.add(code_point)
    newer, missed_ideographs, deleted = known_differences()
    assert {hex(c) for c in differ - newer - missed_ideographs - deleted} == set()
    # The list says no more than is so.
    assert {hex(c) for c in deleted if unicodedata.category(chr(c)) == "Co"} <= set(
        map(hex, differ)
    )
    if lowercase:
        assert {hex(c) for c in (newer | missed_ideographs) & set(CODE_POINTS) - differ} == set()


@pytest.fixture
def switched_pair():
    """Makes our tokenizer and theirs on one vocabulary, with any switches."""
    tokenizers = pytest.importorskip("tokenizers")

    def make(vocabulary, switches):
        ids = {token: number for number, token in enumerate(vocabulary)}
        theirs = tokenizers.Tokenizer(tokenizers.models.WordPiece(ids, unk_token="[UNK]"))
        theirs.normalizer = tokenizers.normalizers.BertNormalizer(
            lowercase=switches["lowercase"],
            strip_accents=switches["strip_accents"],
            handle_chinese_chars=switches["split_ideographs"],
        )
        theirs.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
        return WordPieceTokenizer(vocabulary, **switches), theirs

    return make


@pytest.mark.parametrize("text", ["austen-emma", "bryant-stories", "zh-honglou"])
@pytest.mark.parametrize("switches", OTHER_SWITCHES, ids=switch_id)
def test_real_texts_with_switches(switched_pair, shared_data, switches, text):
    path = shared_data / "vocab/bert-base-multilingual-cased/vocab.txt"
    ours, theirs = switched_pair(read_vocabulary(path), switches)
    lines = (shared_data / f"text/{text}.txt").read_text(encoding="utf-8").split("\n")
    encodings = theirs.encode_batch(lines)
    spans = ours.tokenize_with_spans(lines)
    assert spans.token_ids.to_list() == [encoding.ids for encoding in encodings]
    offsets = np.array([offset for encoding in encodings for offset in encoding.offsets])
    assert np.array_equal(spans.char_starts.values, offsets[:, 0])
    assert np.array_equal(spans.char_ends.values, offsets[:, 1])


@pytest.mark.skipif(
    unicodedata.unidata_version != "14.0.0", reason="the differences are listed for Unicode 14"
)
@pytest.mark.parametrize("switches", OTHER_SWITCHES, ids=switch_id)
def test_every_code_point_with_switches(switched_pair, switches):
    characters = [chr(number) for number in CODE_POINTS]
    normal = letters(characters, switches["lowercase"], switches["strip_accents"])
    ours, theirs = switched_pair([*SPECIAL_TOKENS, *normal, *("##" + c for c in normal)], switches)
    texts = [f"a{character}b {character}" for character in characters]
    encodings = theirs.encode_batch(texts)
    differ = {
        code_point
        for code_point, ids, encoding in zip(
            CODE_POINTS, ours(texts).to_list(), encodings, strict=True
        )
        if ids != encoding.ids
    }
    newer, missed_ideographs, deleted = known_differences()
    newer |= {0x11938}  # Has a decomposition since Unicode 13.
    if not switches["split_ideographs"]:
        missed_ideographs = set()
    assert {hex(c) for c in differ - newer - missed_ideographs - deleted} == set()
    assert missed_ideographs <= differ
    assert not switches["strip_accents"] or newer & set(CODE_POINTS) <= differ


def test_final_sigma_is_a_known_difference(their_pair):
    ours, theirs = their_pair("bert-base-uncased", True)
    text = "ΟΔΟΣ"
    assert theirs.encode(text, add_special_tokens=False).tokens[-1] == "##σ"
    assert ours.id_to_token(int(ours(text)[-1])) == "##ος"
