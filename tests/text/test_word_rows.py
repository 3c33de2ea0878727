"""Words to rows: places, windows, words that vanish; texts to words with their characters."""

import numpy as np
import pytest
from tiny import VOCABULARY

import keras_bert_zoo as kbz
from keras_bert_zoo.text.word_rows import read_word_spans, read_words, word_rows

VANISHING = ["\u200b", "\ufffd", "\u00ad", "\u0301", "", " \t"]


@pytest.fixture(scope="module")
def tokenizer():
    return kbz.WordPieceTokenizer(VOCABULARY)


@pytest.fixture(scope="module")
def uncased(shared_data):
    return kbz.WordPieceTokenizer(shared_data / "vocab" / "bert-base-uncased" / "vocab.txt")


def rows_of(tokenizer, sentences, length=12, stride=None):
    words = read_words(tokenizer, sentences)
    return words, word_rows(words, length, tokenizer.cls_id, tokenizer.sep_id, stride)


def tokens(tokenizer, rows):
    names = [tokenizer.id_to_token(int(n)) for n in rows.token_ids]
    return [names[a:b] for a, b in zip(rows.splits[:-1], rows.splits[1:], strict=True)]


def test_bc_n01_words_that_vanish_keep_their_count(uncased):
    for nothing in VANISHING:
        _, rows = rows_of(uncased, [["Greta", nothing, "visited", "Tbilisi"]])
        assert tokens(uncased, rows) == [["[CLS]", "greta", "visited", "tbilisi", "[SEP]"]]
        assert rows.words.tolist() == [-1, 0, 2, 3, -1]
        assert rows.places.tolist() == [1, -1, 2, 3]
        assert rows.spread(np.array([7, 0, 0, 9]), -1).tolist() == [-1, 7, 0, 9, -1]


def test_bc_n03_punctuation_inside_words(uncased):
    _, rows = rows_of(uncased, [["on", "2021-06-30", "left", "U.N."]], length=16)
    expected = "[CLS] on 2021 - 06 - 30 left u . n . [SEP]".split()
    assert tokens(uncased, rows) == [expected]
    assert rows.words.tolist() == [-1, 0, 1, 1, 1, 1, 1, 2, 3, 3, 3, 3, -1]
    labels = rows.spread(np.array([0, 5, 0, 6]), -100)
    expected = [-100, 0, 5, -100, -100, -100, -100, 0, 6, -100, -100, -100, -100]
    assert labels.tolist() == expected
    everywhere = rows.spread(np.array([0, 5, 0, 6]), -100, np.array([0, 15, 0, 16]))
    assert everywhere.tolist() == [-100, 0, 5, 15, 15, 15, 15, 0, 6, 16, 16, 16, -100]


def brute_force(counts, room, stride):
    """Windows, and the window and place of each word's first piece, piece by piece."""
    first, owner = [], []
    for word, count in enumerate(counts):
        first.append(len(owner) if count else None)
        owner += [word] * count
    starts = [0]
    while starts[-1] + room < len(owner):
        after = [f for f in first if f is not None and f > starts[-1]]
        after = [f for f in after if f >= min(starts[-1] + stride, len(owner) - room)]
        if not after:
            break
        starts.append(after[0])
    best = []
    for f in first:
        options = []
        for number, start in enumerate(starts):
            end = min(start + room, len(owner))
            if f is not None and start <= f < end:
                options.append((-min(f - start, end - 1 - f), number, f - start + 1))
        best.append(min(options)[1:] if options else None)
    return starts, best


@pytest.mark.parametrize("seed", range(40))
def test_windows_cover_every_word_once(tokenizer, seed):
    random = np.random.default_rng(seed)
    kinds = ["good", "teas", "filmings", "\u200b", "a.b.c.d.e.f.g", "unknown"]
    sentences = [
        [kinds[n] for n in random.integers(0, len(kinds), random.integers(0, 30))] for _ in range(6)
    ]
    room = int(random.integers(1, 12))
    stride = int(random.integers(1, room + 1))
    words, rows = rows_of(tokenizer, sentences, room + 2, stride)
    assert rows.lengths.max(initial=0) <= room + 2
    pieces_of = dict(zip(kinds, tokenizer(kinds).to_list(), strict=True))
    row = word = 0
    for sentence in sentences:
        counts = words.piece_counts[word : word + len(sentence)].tolist()
        assert counts == [len(pieces_of[w]) for w in sentence]
        starts, best = brute_force(counts, room, stride)
        for found, expected in zip(rows.places[word:], best, strict=False):
            assert (found >= 0) == (expected is not None)
            if expected is not None:
                assert found == rows.splits[row + expected[0]] + expected[1]
        pieces = [n for w in sentence for n in pieces_of[w]]
        for number, start in enumerate(starts):
            inside = rows.token_ids[rows.splits[row + number] : rows.splits[row + number + 1]]
            wanted = pieces[start : start + room]
            assert inside.tolist() == [tokenizer.cls_id, *wanted, tokenizer.sep_id]
        row += len(starts)
        word += len(sentence)
    assert row == len(rows)
    # Labels of all pieces stand in the row of the word's place alone.
    for number in range(len(rows)):
        part = rows.words[rows.splits[number] : rows.splits[number + 1]]
        here = (rows.places >= rows.splits[number]) & (rows.places < rows.splits[number + 1])
        assert set(part.tolist()) - {-1} == set(np.flatnonzero(here).tolist())


def test_nothing_at_all(tokenizer):
    for sentences in ([], [[]], [["\u200b"], []]):
        words, rows = rows_of(tokenizer, sentences)
        assert rows.token_ids.tolist() == [tokenizer.cls_id, tokenizer.sep_id] * len(sentences)
        assert rows.places.tolist() == [-1] * sum(map(len, sentences))
        assert words.word_counts.tolist() == list(map(len, sentences))
        assert rows.features()["token_ids"].shape == (len(sentences), None)


def test_features(tokenizer):
    _, rows = rows_of(tokenizer, [["good"], [], ["bad", "film"]])
    features = {name: part.to_list() for name, part in rows.features().items()}
    good, bad, film = (VOCABULARY.index(word) for word in ("good", "bad", "film"))
    assert features["token_ids"] == [[2, good, 3], [2, 3], [2, bad, film, 3]]
    assert features["segment_ids"] == [[0] * 3, [0] * 2, [0] * 4]
    assert features["padding_mask"] == [[1] * 3, [1] * 2, [1] * 4]


@pytest.mark.parametrize(
    "sentences, message",
    [
        ([["a"], "a text"], "sentence 1 is 'a text'. Texts and lists of words cannot be mixed"),
        ([["a", 3]], r"Sentence 0 has the word 3 \(int\)"),
        ([["a", None]], "NoneType"),
        ([["\ud800"]], "half a surrogate pair"),
    ],
)
def test_what_is_no_word(tokenizer, sentences, message):
    with pytest.raises(ValueError, match=message):
        read_words(tokenizer, sentences)


@pytest.mark.parametrize("length, stride", [(2, None), (12, 0), (12, 11), (12, 2.0)])
def test_bad_lengths(tokenizer, length, stride):
    with pytest.raises(ValueError, match="Received: "):
        rows_of(tokenizer, [["a"]], length, stride)


def test_spans_into_texts(uncased):
    texts = [
        "Zürich’s café, 东京\u200b塔!",
        "",
        "\u200b",
        "I\u0307stanbul 😀 naïve\u0301ly  x",
        "a" * 150 + " b",
    ]
    words = read_word_spans(uncased, texts)
    assert words.word_counts.tolist() == [9, 0, 0, 4, 2]
    names, place = [], 0
    for text, count in zip(texts, words.word_counts, strict=True):
        part = slice(place, place + count)
        spans = zip(words.char_starts[part], words.char_ends[part], strict=True)
        names.append([text[start:end] for start, end in spans])
        place += count
    assert names[0] == ["Zürich", "’", "s", "café", ",", "东", "京", "塔", "!"]
    assert names[3] == ["I\u0307stanbul", "😀", "naïve\u0301ly", "x"]
    assert names[4] == ["a" * 150, "b"]
    # The pieces are those of the whole texts, in order.
    assert words.pieces.tolist() == uncased(texts).values.numpy().tolist()
    assert words.piece_counts.sum() == len(words.pieces)
    with pytest.raises(ValueError, match="Text 1 is None"):
        read_word_spans(uncased, ["a", None])


def test_words_of_real_text_are_those_of_the_basic_tokenizer(uncased, shared_data):
    lines = (shared_data / "text" / "sample_text.txt").read_text("utf-8").splitlines()
    words = read_word_spans(uncased, lines)
    text = np.repeat(np.arange(len(lines)), words.word_counts)
    spans = zip(text, words.char_starts, words.char_ends, strict=True)
    names = [lines[number][start:end] for number, start, end in spans]
    assert len(names) > 900
    assert not any(character.isspace() for name in names for character in name)
    # Alone, each word has the same pieces.
    alone = uncased(names)
    assert alone.row_lengths().numpy().tolist() == words.piece_counts.tolist()
    assert alone.values.numpy().tolist() == words.pieces.tolist()
