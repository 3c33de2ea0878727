"""Windows of questions and passages against a plain reading of the rules, token by token."""

import time

import numpy as np
import pytest
from tiny import VOCABULARY, WORDS

from keras_bert_zoo.text.windows import question_windows
from keras_bert_zoo.text.wordpiece import WordPieceTokenizer


@pytest.fixture(scope="module")
def tokenizer():
    return WordPieceTokenizer(VOCABULARY)


def tokens_of(tokenizer, text):
    """(id, start, end) of each token."""
    spans = tokenizer.tokenize_with_spans(text)
    fields = (spans.token_ids, spans.char_starts, spans.char_ends)
    return list(zip(*(field.numpy().tolist() for field in fields), strict=True))


def plain_windows(tokenizer, question, context, length, stride, longest_question):
    """Windows one by one, with the place of the first token of the passage, its number, and which
    tokens have most context here, as google-research/bert words it."""
    query = [token[0] for token in tokens_of(tokenizer, question)][:longest_question]
    passage = [token[0] for token in tokens_of(tokenizer, context)]
    room = length - len(query) - 3
    windows, start = [], 0
    while True:
        inside = passage[start : start + room]
        windows.append((start, inside))
        if start + len(inside) == len(passage):
            break
        start += min(len(inside), stride)
    rows = []
    for number, (start, inside) in enumerate(windows):
        most = []
        for token in range(start, start + len(inside)):
            best, best_window = None, None
            for other, (first, tokens) in enumerate(windows):
                end = first + len(tokens) - 1
                if first <= token <= end:
                    score = min(token - first, end - token) + 0.01 * len(tokens)
                    if best is None or score > best:
                        best, best_window = score, other
            most.append(best_window == number)
        row = [tokenizer.cls_id, *query, tokenizer.sep_id, *inside, tokenizer.sep_id]
        segments = [0] * (len(query) + 2) + [1] * (len(inside) + 1)
        rows.append((row, segments, len(query) + 2, start, most))
    return rows


def random_texts(random, count, longest):
    marks = [*WORDS, "Tea", "CAFÉ", "zoë", "中国", "teas", ".", "?", "\u0301", "\u200b", " ", "😀"]
    return [
        " ".join(random.choice(marks, random.integers(0, longest))).replace("  ", "\u00a0")
        for _ in range(count)
    ]


@pytest.mark.parametrize(
    "length, stride, longest_question",
    [(16, 4, 8), (16, 1, 12), (12, 100, 8), (30, 7, 20), (384, 128, 64), (16, 3, 1)],
)
def test_windows_are_those_of_the_plain_reading(tokenizer, length, stride, longest_question):
    random = np.random.default_rng(length + stride)
    questions = random_texts(random, 25, 14)
    contexts = random_texts(random, 15, 60 if length < 100 else 500)
    contexts += [contexts[n] for n in random.integers(0, 15, 10)]
    windows = question_windows(tokenizer, questions, contexts, length, stride, longest_question)
    assert len(windows.passages.texts) <= 15
    rows = {name: rows.to_list() for name, rows in windows.features.items()}
    number = 0
    flat = 0
    for owner, (question, context) in enumerate(zip(questions, contexts, strict=True)):
        expected = plain_windows(tokenizer, question, context, length, stride, longest_question)
        for row, segments, first_place, first_token, most in expected:
            assert windows.question_numbers[number] == owner
            assert rows["token_ids"][number] == row
            assert rows["segment_ids"][number] == segments
            assert rows["padding_mask"][number] == [1] * len(row) and len(row) <= length
            assert windows.first_places[number] == first_place
            assert windows.first_tokens[number] == first_token
            assert windows.lengths[number] == len(most)
            assert windows.most_context[flat : flat + len(most)].tolist() == most
            starts, passage = windows.may_answer(np.array([number]), length + 3)
            assert np.flatnonzero(passage).tolist() == [
                *range(first_place, first_place + len(most))
            ]
            assert starts[0, first_place : first_place + len(most)].tolist() == most
            assert starts.sum() == sum(most)
            number, flat = number + 1, flat + len(most)
    assert number == len(windows) and flat == len(windows.most_context)
    # Each token of a passage has most context in one window.
    assert (
        windows.most_context.sum()
        == np.diff(windows.passages.splits)[windows.passage_numbers].sum()
    )


@pytest.mark.parametrize("tokens", [382, 400, 450, 500, 507, 508, 509])
def test_the_length_of_a_window_is_part_of_its_context(tokenizer, tokens):
    """A last window that is shorter by a hundred tokens loses one token of context."""
    context = " ".join(["tea"] * tokens)
    windows = question_windows(tokenizer, ["what"], [context])
    expected = plain_windows(tokenizer, "what", context, 384, 128, 64)
    assert len(windows) == len(expected) == (2 if tokens < 509 else 3)
    assert windows.most_context.tolist() == [most for row in expected for most in row[4]]


def test_places_and_characters_are_those_of_single_tokens(tokenizer):
    random = np.random.default_rng(3)
    questions, contexts = random_texts(random, 40, 10), random_texts(random, 40, 60)
    windows = question_windows(tokenizer, questions, contexts, 20, 5, 10)
    starts = np.array([random.integers(0, len(text) + 1) for text in contexts])
    ends = np.array([random.integers(a, len(t) + 1) for a, t in zip(starts, contexts, strict=True)])
    first, last = windows.passages.tokens_at(windows.passage_numbers, starts, ends)
    start_places, end_places = windows.places(first, last)
    inside = 0
    for owner, context in enumerate(contexts):
        tokens = tokens_of(tokenizer, context)
        # A token of which some characters are asked for.
        touched = [n for n, (_, a, b) in enumerate(tokens) if a < ends[owner] and b > starts[owner]]
        touched = touched if ends[owner] > starts[owner] else []
        if ends[owner] > starts[owner]:
            expected = (touched[0], touched[-1]) if touched else (-1, -1)
            assert (first[owner], last[owner]) == expected
        for number in np.flatnonzero(windows.question_numbers == owner):
            seen = range(
                windows.first_tokens[number], windows.first_tokens[number] + windows.lengths[number]
            )
            places = int(start_places[number]), int(end_places[number])
            if first[owner] < 0 or first[owner] not in seen or last[owner] not in seen:
                assert places == (0, 0)
                continue
            inside += 1
            row = windows.features["token_ids"][number].numpy()
            assert row[places[0]] == tokens[first[owner]][0]
            assert row[places[1]] == tokens[last[owner]][0]
            span = windows.characters(*np.array([[number], [places[0]], [places[1]]]))
            assert (span[0][0], span[1][0]) == (tokens[first[owner]][1], tokens[last[owner]][2])
    assert inside > 30


def test_passages_without_tokens_have_a_window_all_the_same(tokenizer):
    windows = question_windows(tokenizer, ["tea ?", ""], ["", "\u200b"], 20, 5, 10)
    tea, mark = (tokenizer.token_to_id(token) for token in ("tea", "?"))
    cls, sep = tokenizer.cls_id, tokenizer.sep_id
    assert windows.features["token_ids"].to_list() == [
        [cls, tea, mark, sep, sep],
        [cls, sep, sep],
    ]
    assert windows.most_context.size == 0 and not windows.may_answer(np.array([0, 1]), 8)[1].any()


def test_a_passage_in_many_chunks(tokenizer, monkeypatch):
    random = np.random.default_rng(5)
    questions, contexts = random_texts(random, 30, 8), random_texts(random, 30, 50)
    whole = question_windows(tokenizer, questions, contexts, 20, 5, 10)
    monkeypatch.setattr("keras_bert_zoo.text.windows._CHUNK", 7)
    monkeypatch.setattr("keras_bert_zoo.text.passages._CHUNK", 4)
    parts = question_windows(tokenizer, questions, contexts, 20, 5, 10)
    for name, rows in whole.features.items():
        assert parts.features[name].to_list() == rows.to_list()
    np.testing.assert_array_equal(parts.passages.char_ends, whole.passages.char_ends)


@pytest.mark.parametrize("length, words", [(16, 20), (23, 20)])
def test_bc_q02_no_room_for_the_passage(tokenizer, length, words):
    question = " ".join(["tea"] * words)
    start = time.perf_counter()
    with pytest.raises(ValueError, match=f"must exceed `max_query_length`.*={length}, .*=64"):
        question_windows(tokenizer, [question], ["tea is fine ."], length)
    # A question that is cut leaves room for one token at least.
    windows = question_windows(
        tokenizer, [question], ["tea is fine ."], length, max_query_length=length - 4
    )
    assert windows.lengths.min() >= 1 and windows.lengths.sum() >= 4
    assert time.perf_counter() - start < 1


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"stride": 0}, "`stride`.*stride=0"),
        ({"max_query_length": 0}, "max_query_length=0"),
        ({"contexts": ["tea"] * 2}, "1 questions and 2 passages"),
        ({"questions": [], "contexts": []}, "0 questions"),
    ],
)
def test_refusals(tokenizer, arguments, message):
    arguments = {"questions": ["tea"], "contexts": ["tea"]} | arguments
    with pytest.raises(ValueError, match=message):
        question_windows(tokenizer, **arguments)


def test_bc_q01_spans_after_other_characters(shared_data):
    tokenizer = WordPieceTokenizer(shared_data / "vocab/bert-base-uncased/vocab.txt")
    context = "Zoë’s café in Málaga sells tea"
    windows = question_windows(tokenizer, ["where ?"], [context])
    starts, ends = windows.passages.char_starts, windows.passages.char_ends
    spans = {context[a:b]: (int(a), int(b)) for a, b in zip(starts, ends, strict=True)}
    expected = {"Zoë": (0, 3), "café": (6, 10), "Málaga": (14, 20), "tea": (27, 30)}
    assert {text: spans[text] for text in expected} == expected
    for text, (start, end) in expected.items():
        first, last = windows.passages.tokens_at([0], [start], [end])
        places = windows.places(first, last)
        (a,), (b,) = windows.characters(np.array([0]), *places)
        assert context[a:b] == text
