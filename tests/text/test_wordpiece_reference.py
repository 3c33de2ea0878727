"""Token ids and spans against the rules in plain Python."""

import random

import pytest
import tensorflow as tf
from reference_wordpiece import CODE_POINTS, CONTEXTS, ReferenceTokenizer, normalise

from keras_bert_zoo.text.vocabulary import SPECIAL_TOKENS, read_vocabulary
from keras_bert_zoo.text.wordpiece import WordPieceTokenizer

VOCABULARIES = [
    ("bert-base-uncased", True),
    ("bert-base-multilingual-cased", False),
    ("bert-base-chinese", True),
]


def differences(tokenizer, reference, texts):
    """The texts whose ids differ, with both."""
    ids = tokenizer(texts)
    values, splits = ids.values.numpy().tolist(), ids.row_splits.numpy().tolist()
    found = []
    for text, start, end in zip(texts, splits[:-1], splits[1:], strict=True):
        expected = reference(text)
        if values[start:end] != expected:
            found.append((text, values[start:end], expected))
    return found


def span_differences(tokenizer, reference, texts):
    """The texts whose tokens or spans differ, with both; bytes must agree with characters."""
    spans = [field.to_list() for field in tokenizer.tokenize_with_spans(texts)]
    found = []
    for text, ids, byte_starts, byte_ends, starts, ends in zip(texts, *spans, strict=True):
        expected = [(reference.ids[t.text], t.start, t.end) for t in reference.tokens(text)]
        actual = list(zip(ids, starts, ends, strict=True))
        if actual != expected:
            found.append((text, actual, expected))
        encoded = text.encode()
        cut = [encoded[a:b].decode() for a, b in zip(byte_starts, byte_ends, strict=True)]
        assert cut == [text[a:b] for a, b in zip(starts, ends, strict=True)], text
    return found


@pytest.fixture(scope="module", params=VOCABULARIES, ids=lambda x: x[0])
def pair(request, shared_data):
    """A tokenizer on a real vocabulary, and its reference."""
    name, lowercase = request.param
    vocabulary = read_vocabulary(shared_data / "vocab" / name / "vocab.txt")
    return (
        WordPieceTokenizer(vocabulary, lowercase=lowercase),
        ReferenceTokenizer(vocabulary, lowercase),
    )


@pytest.mark.parametrize("context", CONTEXTS)
def test_every_code_point(pair, context):
    texts = [context.format(chr(c), chr(c)) for c in CODE_POINTS]
    assert len(texts) > 140_000
    assert differences(*pair, texts) == []


@pytest.mark.parametrize("lowercase", [True, False])
def test_every_code_point_is_normalised(lowercase):
    # A vocabulary of all normalised characters, so that no difference hides behind [UNK].
    normal = sorted({c for number in CODE_POINTS for c in normalise(chr(number), lowercase)})
    normal = [c for c in normal if c not in "\n\r"]
    vocabulary = [*SPECIAL_TOKENS, *normal, *("##" + c for c in normal)]
    tokenizer = WordPieceTokenizer(vocabulary, lowercase=lowercase)
    reference = ReferenceTokenizer(vocabulary, lowercase)
    texts = [f"a{chr(number)}b {chr(number)}" for number in CODE_POINTS]
    assert differences(tokenizer, reference, texts) == []
    assert span_differences(tokenizer, reference, texts[::7]) == []


@pytest.mark.parametrize("name", ["austen-emma", "zh-honglou"])
def test_real_texts(pair, shared_data, name):
    tokenizer, reference = pair
    lines = (shared_data / "text" / f"{name}.txt").read_text(encoding="utf-8").split("\n")
    assert differences(tokenizer, reference, lines) == []
    spans = tokenizer.tokenize_with_spans(lines)
    columns = [field.values.numpy().tolist() for field in spans]
    rows = spans.token_ids.value_rowids().numpy().tolist()
    assert len(rows) > 200_000
    encoded = [line.encode() for line in lines]
    cuts = {
        (token, lines[row][start:end], encoded[row][byte_start:byte_end])
        for row, token, byte_start, byte_end, start, end in zip(rows, *columns, strict=True)
    }
    vocabulary = tokenizer.vocabulary
    for token, text, text_in_bytes in cuts:
        assert text_in_bytes.decode() == text
        if vocabulary[token] != "[UNK]":
            expected = vocabulary[token]
            assert normalise(text, reference.lowercase) in (expected, expected.removeprefix("##"))
        else:
            assert reference(text) == [token]


# What the rules treat specially, in small words where it meets.
ODD = (
    "ΣΣΣσςAaİıßK'.·:-^$≠`ͅ"  # The final sigma, and what it looks through.
    "\u0301\u0327\u05b0\u034f\u094d\u0489"  # Combining: Mn of several classes, of none, and Me.
    "\u302e\u302f\U00016ff0\U0001d165\U0001d16d\U0001d160\u1715\u1baa"  # Kept, and reordered.
    "\u0bca\u0ccb\u0cc0차각\u1100\u1161\u11a8"  # Decomposed to several.
    "\0\x0b\x1c\x85\xad\u200d\ufeff\ufffd\U000e0001"  # Deleted.
    "  \t\n\r\u2028\u2029\u3000\xa0"  # White.
    "中\uf900\U0002f800\U0002b820〇ｶカ。"  # Ideographs, and not.
    "\ue000\ufffe\U0010ffff\U00010400\U0001e900\U0001f600\u0378"  # Other planes, other cases.
)


# Where order and neighbours matter most.
SIGMAS = "ΣΣσA1'.\u0301\u0345\xad\0 中[ªʰ"
COMBINING = "e \u302e\u302f\U00016ff0\U0001d165\U0001d160\u1715\u034f\u0301\u0489\u094d\u0ccb\xad"


def random_texts(seed, count):
    draw = random.Random(seed)
    texts = []
    for i in range(count):
        some = [draw.choices(ODD, k=draw.randint(1, 6)), SIGMAS, COMBINING][i % 3]
        texts.append("".join(draw.choices(some, k=draw.randint(0, 14))))
    return texts


@pytest.mark.parametrize("lowercase", [True, False])
def test_random_texts(lowercase):
    odd = set(ODD + SIGMAS + COMBINING) - set("\n\r")
    normal = sorted(set("".join(normalise(c, lowercase) for c in odd)) | {"ς"})
    draw = random.Random(0)
    vocabulary = {*normal, *("##" + c for c in normal[1::2])}
    for _ in range(300):
        piece = "".join(draw.choices(normal, k=draw.randint(2, 3)))
        vocabulary |= {piece, "##" + piece}
    vocabulary = [*SPECIAL_TOKENS, *sorted(vocabulary)]
    tokenizer = WordPieceTokenizer(vocabulary, lowercase, max_characters_per_word=9)
    reference = ReferenceTokenizer(vocabulary, lowercase, limit=9)
    texts = random_texts(1, 12_000)
    # Whole batches, where rows must not look into each other, and texts one by one.
    assert differences(tokenizer, reference, texts) == []
    assert span_differences(tokenizer, reference, texts) == []
    for text in texts[:100]:
        assert tokenizer(text).numpy().tolist() == reference(text)


def test_reordering_is_exercised():
    # Guards the fuzzing above: its alphabet must reach the rules that look at neighbours.
    texts = random_texts(1, 12_000)
    final = sum("ς" in normalise(text, True) and "ς" not in text for text in texts)
    words = [word for text in texts for word in text.split()]
    reordered = sum(
        normalise(word, True) != "".join(normalise(c, True) for c in word.replace("Σ", "σ"))
        for word in words
        if "Σ" not in word
    )
    assert final > 300
    assert reordered > 100


@pytest.mark.parametrize("seed", range(20))
def test_nasty_vocabularies(seed):
    """Greedy matching where entries are prefixes, suffixes and repetitions of each other."""
    draw = random.Random(seed)
    letters = "ab" if seed % 2 else "abcж中\U00010428"
    pieces = {"".join(draw.choices(letters, k=draw.randint(1, 6))) for _ in range(40)}
    extra = ["", "#", "##", "###", "####", "##[UNK]", "a b", " ", "##\0", "[", "]", "\t", "UNK"]
    vocabulary = sorted(
        {p for p in pieces if draw.random() < 0.6}
        | {"##" + p for p in pieces if draw.random() < 0.6}
    )
    vocabulary = [*SPECIAL_TOKENS, *extra, *vocabulary]
    draw.shuffle(vocabulary)
    if not vocabulary[-1]:
        vocabulary.reverse()
    words = ["".join(draw.choices(letters, k=draw.randint(1, 12))) for _ in range(3000)]
    words += ["#", "##", "a#", "#a", "##a", "[UNK]", "a[UNK]b", "", " ", "aaaaaaaaaaaab"]
    tokenizer = WordPieceTokenizer(vocabulary)
    reference = ReferenceTokenizer(vocabulary)
    assert differences(tokenizer, reference, words) == []
    assert span_differences(tokenizer, reference, words) == []


def test_special_tokens_in_random_texts():
    pieces = [*SPECIAL_TOKENS, "[MASK", "MASK]", "[[", "]", "[mask]", "[Mask]", "a", " ", "Σ", "é"]
    draw = random.Random(5)
    letters = sorted(set("[]maskpduncles") | {"σ", "ς", "e"})
    vocabulary = [*SPECIAL_TOKENS, *letters, *("##" + c for c in letters)]
    tokenizer = WordPieceTokenizer(vocabulary, special_tokens_in_text=True)
    reference = ReferenceTokenizer(vocabulary)
    texts = ["".join(draw.choices(pieces, k=draw.randint(0, 8))) for _ in range(4000)]
    spans = [field.to_list() for field in tokenizer.tokenize_with_spans(texts)]
    for text, ids, _, _, starts, ends in zip(texts, *spans, strict=True):
        expected, start, place = [], 0, 0
        while place <= len(text):
            found = [t for t in SPECIAL_TOKENS if text.startswith(t, place)]
            if found or place == len(text):
                rest = reference.tokens(text[start:place])
                expected += [(reference.ids[t.text], t.start + start, t.end + start) for t in rest]
            if found:
                expected.append((reference.ids[found[0]], place, place + len(found[0])))
                start = place + len(found[0])
            place += len(found[0]) if found else 1
        assert list(zip(ids, starts, ends, strict=True)) == expected, text
    assert tokenizer(texts).to_list() == spans[0]


def test_malformed_utf8_is_deleted(shared_data):
    tokenizer = WordPieceTokenizer(shared_data / "vocab/bert-base-uncased/vocab.txt")
    texts = [b"te\xffa cup", b"\xc3", b"tea\xe4\xb8", b"\xed\xa0\x80tea"]
    tea, cup = tokenizer("tea cup").numpy().tolist()
    assert tokenizer(texts).to_list() == [[tea, cup], [], [tea], [tea]]
    spans = tokenizer.tokenize_with_spans(texts)
    assert spans.byte_starts.to_list() == [[0, 5], [], [0], [3]]
    assert spans.byte_ends.to_list() == [[4, 8], [], [3], [6]]


def test_graph_and_eager_agree(pair):
    tokenizer, _ = pair
    texts = random_texts(3, 500)
    traced = tf.function(lambda x: tokenizer(x).values)
    assert traced(tf.constant(texts)).numpy().tolist() == tokenizer(texts).values.numpy().tolist()
