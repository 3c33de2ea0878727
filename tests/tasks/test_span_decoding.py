"""Answers from the logits of windows, against every candidate tried one by one."""

import numpy as np
import pytest
from tiny import VOCABULARY, WORDS

from keras_bert_zoo.tasks.span_decoding import SpanDecoder
from keras_bert_zoo.text.windows import question_windows
from keras_bert_zoo.text.wordpiece import WordPieceTokenizer

LONGEST = 4


@pytest.fixture(scope="module")
def tokenizer():
    return WordPieceTokenizer([*VOCABULARY, "中", "国", "人"])


def random_windows(tokenizer, seed, count=20):
    random = np.random.default_rng(seed)
    marks = [*WORDS, "Café", "中国人", "TEA", ".", "\u200b"]
    texts = [" ".join(random.choice(marks, random.integers(0, 50))) for _ in range(count)]
    questions = [" ".join(random.choice(WORDS, random.integers(1, 9))) for _ in range(count)]
    return question_windows(tokenizer, questions, texts, 20, 5, 8), texts


def logits_for(windows, seed, width=23):
    random = np.random.default_rng(seed)
    return random.normal(size=(2, len(windows), width), scale=3).astype("float32")


def decoded(windows, starts, ends, batch=7, **settings):
    decoder = SpanDecoder(windows, **({"max_answer_tokens": LONGEST} | settings))
    order = np.random.default_rng(0).permutation(len(windows))
    for first in range(0, len(windows), batch):
        numbers = order[first : first + batch]
        decoder.add(numbers, {"start_logits": starts[numbers], "end_logits": ends[numbers]})
    return decoder.answers()


def every_candidate(tokenizer, windows, owner, context, starts, ends):
    """(score, text, start, end) of all that the rules allow, best first."""
    spans = tokenizer.tokenize_with_spans(context)
    char_starts, char_ends = spans.char_starts.numpy(), spans.char_ends.numpy()
    numbers = np.flatnonzero(windows.question_numbers == owner)
    flat = np.cumsum(windows.lengths) - windows.lengths
    found = []
    for number in numbers:
        for first in range(windows.lengths[number]):
            if not windows.most_context[flat[number] + first]:
                continue
            for last in range(first, min(first + LONGEST, windows.lengths[number])):
                base, place = windows.first_tokens[number], windows.first_places[number]
                a, b = char_starts[base + first], char_ends[base + last]
                score = float(starts[number, place + first]) + float(ends[number, place + last])
                found.append((score, context[a:b], int(a), int(b)))
    null = min(float(starts[n, 0]) + float(ends[n, 0]) for n in numbers)
    return sorted(found, key=lambda c: -c[0]), null


@pytest.mark.parametrize("seed", range(3))
def test_answers_are_the_best_of_all_candidates(tokenizer, seed):
    windows, texts = random_windows(tokenizer, seed)
    assert len(windows) > 40
    starts, ends = logits_for(windows, seed)
    answers = decoded(windows, starts, ends)
    for owner, (context, found) in enumerate(zip(texts, answers, strict=True)):
        expected, null = every_candidate(tokenizer, windows, owner, context, starts, ends)
        assert found.null_score == pytest.approx(null)
        if not expected:
            assert found.best is None and found.answer().text == ""
            continue
        best = found.best
        assert (best.text, best.start, best.end) == expected[0][1:]
        assert best.score == pytest.approx(expected[0][0])
        assert found.answer() is best and found.null_odds == pytest.approx(null - best.score)
        for span in found.n_best:
            assert span.text == context[span.start : span.end] != ""
        # The best one of each text, in order.
        distinct = {}
        for score, text, *_ in expected:
            distinct.setdefault(text, score)
        listed = [(span.text, span.score) for span in found.n_best]
        assert len(listed) <= 20
        # Each window gives its best twenty, of which some may have the same text.
        assert [text for text, _ in listed[:5]] == list(distinct)[:5]
        assert [score for _, score in listed] == pytest.approx(
            [distinct[text] for text, _ in listed]
        )
        scores = np.array([span.score for span in found.n_best])
        shares = np.exp(scores) / np.exp(scores).sum()
        np.testing.assert_allclose([span.probability for span in found.n_best], shares)


def test_null_is_a_candidate_of_2_0_and_the_threshold_decides(tokenizer):
    windows, _ = random_windows(tokenizer, 5)
    starts, ends = logits_for(windows, 5)
    answers = decoded(windows, starts, ends, null=True)
    silent = 0
    for found in answers:
        assert [span.text for span in found.n_best].count("") == 1
        assert sum(span.probability for span in found.n_best) == pytest.approx(1)
        assert list(found.n_best) == sorted(found.n_best, key=lambda span: -span.score)
        assert found.null in found.n_best and found.null.score == found.null_score
        if found.best is None:
            continue
        odds = found.null_odds
        assert found.answer(odds) is found.best and found.answer(odds + 1) is found.best
        assert found.answer(odds - 1e-6) is found.null
        silent += found.answer(0.0).text == ""
    assert 0 <= silent < len(answers)


def test_a_start_counts_only_where_it_has_most_context(tokenizer):
    windows, _ = random_windows(tokenizer, 1)
    starts, ends = logits_for(windows, 1)
    expected = decoded(windows, starts, ends)
    may_start, _ = windows.may_answer(np.arange(len(windows)), starts.shape[1])
    wild = np.where(may_start, starts, 50.0)
    wild[:, 0] = starts[:, 0]
    assert not may_start.all() and decoded(windows, wild, ends) == expected


def test_the_order_of_batches_does_not_matter(tokenizer):
    windows, _ = random_windows(tokenizer, 2)
    starts, ends = logits_for(windows, 2)
    assert decoded(windows, starts, ends) == decoded(windows, starts, ends, batch=1)
    # Rows that are padded further.
    wider = [np.pad(part, [(0, 0), (0, 9)], constant_values=7.0) for part in (starts, ends)]
    assert decoded(windows, *wider) == decoded(windows, starts, ends)


@pytest.mark.parametrize("null", [True, False])
def test_bc_q06_no_candidate_at_all(tokenizer, null):
    windows = question_windows(tokenizer, ["what is tea ?", "tea"], ["", "tea is"], 20, 5, 8)
    starts, ends = logits_for(windows, 0)
    starts[:, 2] = ends[:, 2] = 30.0  # All mass on a token of the question.
    found, other = decoded(windows, starts, ends, n_best_size=1, null=null)
    assert found.answer().text == found.answer(0.0).text == found.answer(1e9).text == ""
    assert np.isfinite(found.null_score) and np.isfinite(found.null_odds)
    assert [span.text for span in found.n_best] == [""]
    assert found.n_best[0].probability == 1
    # Where there is a passage, there is a candidate in it, however small its logits are.
    assert other.best.text in ("tea", "is", "tea is") and len(other.n_best) == 1 + null


def test_characters_of_chinese_are_answers(tokenizer):
    windows = question_windows(tokenizer, ["tea ?"], ["中国人 tea 中国"], 20, 5, 8)
    logits = np.zeros([1, 20], "float32")
    place = windows.first_places[0]
    starts, ends = logits.copy(), logits.copy()
    starts[0, place + 1] = ends[0, place + 2] = 5
    (found,) = decoded(windows, starts, ends)
    assert (found.best.text, found.best.start, found.best.end) == ("国人", 1, 3)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_logits_that_are_no_numbers(tokenizer, wrong):
    windows, _ = random_windows(tokenizer, 3)
    starts, ends = logits_for(windows, 3)
    owner = int(np.argmax(windows.lengths))
    starts[owner, windows.first_places[owner]] = wrong
    with pytest.raises(ValueError, match="NaN or infinite"):
        decoded(windows, starts, ends)


def test_refusals(tokenizer):
    windows, _ = random_windows(tokenizer, 4)
    for arguments in ({"n_best_size": 0}, {"max_answer_tokens": 0}):
        with pytest.raises(ValueError, match=f"{next(iter(arguments))}=0"):
            SpanDecoder(windows, **arguments)
    decoder = SpanDecoder(windows)
    starts, ends = logits_for(windows, 4)
    decoder.add(np.arange(5), {"start_logits": starts[:5], "end_logits": ends[:5]})
    with pytest.raises(ValueError, match=f"{len(windows) - 5} of {len(windows)} windows"):
        decoder.answers()
