"""Words in, labels out: counts, windows, words that vanish, texts; learning from lists of words."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from tiny import tiny_encoder, tiny_preprocessor

import keras_bert_zoo as kbz
from keras_bert_zoo.datasets.conll import TaggedSentence
from keras_bert_zoo.datasets.tagging import encode_tagged

LABELS = ["O", "B-LOC", "I-LOC"]
VANISHING = ["\u200b", "\ufffd", "\u00ad", "\u0301", "", "\u200b\u200d"]
SENTENCES = [
    ["paris", "is", "good", "."],
    ["what", "is", "new", "london", "?"],
    ["tea", "!"],
    ["the", "capital", "of", "france", "is", "paris", ".", "good", "films", ",", "bad", "teas"],
]
TAGS = [
    ["B-LOC", "O", "O", "O"],
    ["O", "O", "B-LOC", "I-LOC", "O"],
    ["O", "O"],
    ["O", "O", "O", "B-LOC", "O", "B-LOC", "O", "O", "O", "O", "O", "O"],
]


def made(length=10, labels=LABELS, **changes):
    keras.utils.set_random_seed(3)
    encoder = tiny_encoder(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, **changes)
    return kbz.TokenClassifier(encoder, labels, tiny_preprocessor(length), dropout=0.0)


@pytest.fixture(scope="module")
def learnt():
    task = made(initializer_range=0.2)
    task.compile(kbz.adamw(1e-2, 120, 10), clip_norm=1.0)
    task.fit(SENTENCES, TAGS, epochs=60, batch_size=4, verbose=0)
    return task


def test_it_learns_words_and_tags(learnt):
    assert learnt.tag(SENTENCES) == TAGS
    figures = learnt.evaluate(SENTENCES, TAGS, verbose=0, return_dict=True)
    assert figures["token_accuracy"] == 1
    wrong = [["I-LOC"] * len(words) for words in SENTENCES]
    figures = learnt.evaluate(SENTENCES, wrong, verbose=0, return_dict=True)
    assert figures["token_accuracy"] == pytest.approx(1 / 23)
    # Any size of batch, and single sentences, tell the same.
    assert [learnt.tag([words])[0] for words in SENTENCES] == TAGS
    assert learnt.tag(tuple(map(tuple, SENTENCES)), batch_size=1) == TAGS


def test_lists_of_words_and_encoded_sentences_are_one():
    task = made()
    task.compile("sgd")
    rows = [TaggedSentence(tuple(w), tuple(t), 1, 0) for w, t in zip(SENTENCES, TAGS, strict=True)]
    expected = task.evaluate(encode_tagged(task, rows).evaluation_batches(9), verbose=0)
    assert task.evaluate(SENTENCES, TAGS, verbose=0) == pytest.approx(expected, rel=1e-5)
    x, y = task.read_columns(SENTENCES, TAGS)
    assert x["token_ids"].shape == y.shape == (6, 10)
    np.testing.assert_array_equal(x["padding_mask"] == 0, x["token_ids"] == task.tokenizer.pad_id)
    assert not (y[x["padding_mask"] == 0] >= 0).any()
    history = task.fit(SENTENCES, TAGS, validation_data=(SENTENCES, TAGS), verbose=0).history
    assert "val_token_accuracy" in history


def test_counts_are_equal_whatever_the_words(learnt):
    for nothing in VANISHING:
        words = ["paris", nothing, "is", "london"]
        assert learnt.tag([words])[0][1] == "O"
        without = learnt.tag([["paris", "is", "london"]])[0]
        assert [n for w, n in zip(words, learnt.tag([words])[0], strict=True) if w] == (
            [without[0], "O", *without[1:]] if nothing else without
        )
        assert learnt.tag([[nothing], [], [nothing] * 3, *SENTENCES]) == [
            ["O"], [], ["O"] * 3, *TAGS
        ]  # fmt: skip
    assert learnt.tag([]) == []
    assert learnt.tag([[]]) == [[]]
    random = np.random.default_rng(0)
    kinds = [*VANISHING, "teas", "a.b.c", "x" * 200, "東京", "\U0001f600", "New York", "[SEP]"]
    sentences = [
        [kinds[n] for n in random.integers(0, len(kinds), size)] for size in range(0, 60, 7)
    ]
    assert list(map(len, learnt.tag(sentences))) == list(map(len, sentences))


def test_a_task_without_o_tells_nothing_of_what_vanishes():
    task = made(labels=["NN", "VB"])
    assert task.tag([["tea", "\u200b"]])[0][1] == ""


def by_hand(task, words, stride):
    """Each word's label from the window with most context, from outputs on each window alone."""
    pieces = [task.tokenizer(word).numpy().tolist() for word in words]
    flat = [piece for word in pieces for piece in word]
    firsts = np.cumsum([0, *map(len, pieces)])[:-1].tolist()
    room, starts = task.preprocessor.sequence_length - 2, [0]
    while starts[-1] + room < len(flat):
        least = min(starts[-1] + stride, len(flat) - room)
        starts.append(next(first for first in firsts if first >= least))
    best = {}
    for start in starts:
        part = flat[start : start + room]
        ids = np.array([[task.tokenizer.cls_id, *part, task.tokenizer.sep_id]])
        x = {"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": 0 * ids + 1}
        logits = task(x)[0].numpy()
        for word, first in enumerate(firsts):
            place = first - start
            if 0 <= place < len(part):
                context = min(place, len(part) - 1 - place)
                if context > best.get(word, (-1,))[0]:
                    best[word] = (context, task.labels[logits[place + 1].argmax()])
    return [best[word][1] for word in range(len(words))]


def test_windows(learnt):
    words = [word for sentence in (*SENTENCES, *SENTENCES[::-1]) for word in sentence]
    answers = {}
    for stride in (1, 3, 4, 8):
        answers[stride] = learnt.tag([words, ["paris"]], stride=stride)[0]
        assert answers[stride] == by_hand(learnt, words, stride)
    assert learnt.tag([words])[0] == answers[4]  # Half of what a window holds.
    with pytest.raises(ValueError, match="from 1 to 8"):
        learnt.tag([words], stride=9)


def test_texts(learnt):
    texts = ["Paris is good.", "", "  \u200b", "naïve Páris — films\u0301, 東京!"]
    answers = learnt.tag(texts)
    words = [[word["word"] for word in answer] for answer in answers]
    assert words == [
        ["Paris", "is", "good", "."],
        [],
        [],
        ["naïve", "Páris", "—", "films\u0301", ",", "東", "京", "!"],
    ]
    for text, answer in zip(texts, answers, strict=True):
        for word in answer:
            assert text[word["start"] : word["end"]] == word["word"]
            assert 1 / 3 < word["probability"] <= 1
    assert [word["label"] for word in answers[0]] == TAGS[0]
    # A text is labelled as its words are.
    assert [word["label"] for word in answers[3]] == learnt.tag([words[3]])[0]
    logits = learnt(learnt.preprocessor(texts[:1]))
    shares = tf.nn.softmax(logits)[0, 1:5].numpy().max(-1)
    np.testing.assert_allclose([w["probability"] for w in answers[0]], shares, rtol=1e-4)


def test_entities_in_texts(learnt):
    text = "\u200bwhat is New\u00a0London ?"
    assert learnt.find_entities(["tea !", text]) == [
        [],
        [{"type": "LOC", "text": "New\u00a0London", "start": 9, "end": 19}],
    ]
    with pytest.raises(ValueError, match="takes texts"):
        learnt.find_entities([["tea"]])


def test_a_saved_task_tags_the_same(learnt, tmp_path):
    learnt.save(tmp_path / "tagger.keras")
    loaded = keras.saving.load_model(tmp_path / "tagger.keras")
    assert loaded.tag(SENTENCES) == TAGS
    assert loaded.tag(["Paris"]) == learnt.tag(["Paris"])


@pytest.mark.parametrize(
    "sentences, message",
    [
        ("paris is", "a list of texts, or of lists of words. Received: str"),
        ({"text": ["paris"]}, "Received: dict"),
        ([["paris"], "is"], "cannot be mixed"),
        (["is", ["paris"]], "Text 1 is"),
        ([["paris", 1]], "has the word 1"),
    ],
)
def test_what_cannot_be_tagged(learnt, sentences, message):
    with pytest.raises(ValueError, match=message):
        learnt.tag(sentences)


def test_what_cannot_be_learnt():
    task = made()
    task.compile("sgd")
    for x, y, message in (
        ([["tea"]], [["B-X"]], "Sentence 0 has the tag 'B-X'.*O, B-LOC, I-LOC"),
        ([["tea"], ["tea"]], [["O"], ["O", "O"]], "Sentence 1 has 1 words, but 2 tags"),
        ([["tea"], ["tea"]], [["O"]], "2 sentences, but tags for 1"),
        (["tea"], [["O"]], "A sentence is a list of words"),
        (task.preprocessor(["tea"]), [["O"]], "come with a list of lists of words"),
    ):
        for call in (task.fit, task.evaluate):
            with pytest.raises(ValueError, match=message):
                call(x, y, verbose=0)
    bare = kbz.TokenClassifier(tiny_encoder(), LABELS)
    bare.compile("sgd")
    for call in (lambda: bare.tag([["tea"]]), lambda: bare.fit([["tea"]], [["O"]])):
        with pytest.raises(ValueError, match="has no preprocessor"):
            call()
    with pytest.raises(ValueError, match="`batch_size` must be at least 1"):
        task.tag([["tea"]], batch_size=0)
