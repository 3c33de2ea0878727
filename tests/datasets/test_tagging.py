"""`encode_tagged`: where labels stand, how much they count, and that a model learns from them."""

import keras
import numpy as np
import pytest
from tiny import VOCABULARY, tiny_encoder, tiny_preprocessor

import keras_bert_zoo as kbz
from keras_bert_zoo.datasets.conll import TaggedSentence, read_conll, tag_labels
from keras_bert_zoo.datasets.tagging import encode_tagged
from keras_bert_zoo.metrics.entities import score_entities

LABELS = ["O", "B-X", "I-X"]


def sentence(words, tags, line=1):
    return TaggedSentence(tuple(words.split(" ")), tuple(tags.split()), line, 0)


@pytest.fixture(scope="module")
def task():
    return kbz.TokenClassifier(tiny_encoder(), LABELS, tiny_preprocessor(8))


def test_targets_stand_at_first_pieces(task):
    sentences = [sentence("teas \u200b good.", "B-X I-X O"), sentence("\u200b", "O")]
    encoded = encode_tagged(task, sentences)
    assert encoded.targets.to_list() == [[-1, 1, -1, 0, -1, -1], [-1, -1]]
    assert encoded.weights is None
    everywhere = encode_tagged(task, sentences, label_all_pieces=True)
    assert everywhere.targets.to_list() == [[-1, 1, 2, 0, 0, -1], [-1, -1]]
    ((x, y),) = encoded.evaluation_batches(2)
    assert x["token_ids"].shape == (2, 6)
    assert y.numpy().tolist() == [[-1, 1, -1, 0, -1, -1], [-1] * 6]


def test_each_word_of_a_long_sentence_is_learnt_once(task):
    words = "good bad film tea cup paris london fine a the of what is capital".split()
    tags = [LABELS[n % 3] for n in range(len(words))]
    for stride in (None, 1, 2, 6):
        encoded = encode_tagged(task, [sentence(" ".join(words), " ".join(tags))], stride=stride)
        ids, targets = encoded.features["token_ids"].to_list(), encoded.targets.to_list()
        assert len(ids) > 2
        assert max(map(len, ids)) == 8
        found = {
            task.tokenizer.id_to_token(token): LABELS[label]
            for row, labels in zip(ids, targets, strict=True)
            for token, label in zip(row, labels, strict=True)
            if label >= 0
        }
        assert found == dict(zip(words, tags, strict=True))
        assert sum(label >= 0 for row in targets for label in row) == len(words)


def test_lengths_do_not_lead_past_the_positions():
    encoder = tiny_encoder(max_position_embeddings=12)
    task = kbz.TokenClassifier(encoder, LABELS, tiny_preprocessor(12))
    encoded = encode_tagged(task, [sentence(" ".join(["good"] * 30), "O " * 30)])
    assert encoded.length == 12
    task.compile("sgd")
    task.fit(encoded.training_batches(2), verbose=0)
    assert len(task.tag([["good"] * 30])[0]) == 30
    fixed = kbz.TokenClassifier(tiny_encoder(12), LABELS, tiny_preprocessor(12))
    assert encode_tagged(fixed, [sentence("good", "O")]).length == 12
    assert fixed.tag([["good"], []])[1] == []


def test_bc_n05_labels_weigh(task):
    weights = {"O": 1.0, "B-X": 2.0, "I-X": 3.0}
    sentences = [sentence("good bad", "O B-X"), sentence("film teas", "I-X I-X")]
    encoded = encode_tagged(task, sentences, label_weights=weights, label_all_pieces=True)
    assert encoded.weights.to_list() == [[0, 1, 2, 0], [0, 3, 3, 3, 0]]
    task.compile("sgd")
    loss = task.evaluate(encoded.evaluation_batches(1), verbose=0)[0]
    total = 0
    for x, y, weight in encoded.evaluation_batches(1):
        logits = task(x).numpy().astype("float64")
        losses = (
            np.log(np.exp(logits).sum(-1))
            - np.take_along_axis(logits, np.maximum(y.numpy(), 0)[..., None], -1)[..., 0]
        )
        total += (losses * weight.numpy()).sum()
    assert loss == pytest.approx(total / 12, rel=1e-5)
    # What is not named weighs 1; a weight of 0 takes a label out.
    part = encode_tagged(task, sentences, label_weights={"O": 0.0})
    assert part.weights.to_list() == [[0, 0, 1, 0], [0, 1, 1, 0, 0]]
    task.fit(part.training_batches(2), verbose=0)
    x, y = next(iter(encode_tagged(task, sentences).evaluation_batches(2)))
    with pytest.raises(ValueError, match="`label_weights` to keras_bert_zoo.datasets.tagging"):
        task.fit(x, y.numpy(), class_weight={0: 1, 1: 2, 2: 3}, verbose=0)


@pytest.mark.parametrize(
    "sentences, settings, message",
    [
        ([], {}, "no sentences"),
        ([TaggedSentence(("a",), None, 7, 0)], {}, "line 7 has no tags"),
        ([sentence("a", "B-Y", 9)], {}, "line 9 has the tag 'B-Y', and .* O, B-X, I-X"),
        ([sentence("a", "O")], {"label_weights": {"B-Y": 1}}, "Received: 'B-Y': 1"),
        ([sentence("a", "O")], {"label_weights": {"O": -1}}, "Received: 'O': -1"),
        ([sentence("a", "O")], {"stride": 7}, "from 1 to 6"),
    ],
)
def test_what_is_refused(task, sentences, settings, message):
    with pytest.raises(ValueError, match=message):
        encode_tagged(task, sentences, **settings)


def test_a_tiny_model_learns_sentences_by_heart(shared_data):
    """30 sentences of wikigold, one of them longer than a row, to an entity F1 above 0.95."""
    keras.utils.set_random_seed(0)
    rows = list(read_conll(shared_data / "wikigold" / "wikigold.conll.txt"))
    longest = max(rows, key=lambda s: len(s.words))
    sentences = [*rows[:29], longest]
    tokens = {piece for s in sentences for word in s.words for piece in word.lower()}
    words = {word.lower() for s in sentences for word in s.words if word.isalnum()}
    vocabulary = [*VOCABULARY[:5], *sorted(words | tokens)]
    vocabulary += [f"##{token}" for token in sorted(tokens)]
    tokenizer = kbz.WordPieceTokenizer(vocabulary)
    encoder = tiny_encoder(
        vocab_size=len(vocabulary), hidden_size=64, intermediate_size=128,
        max_position_embeddings=64, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
        initializer_range=0.1,
    )  # fmt: skip
    preprocessor = kbz.TextPreprocessor(tokenizer, 64)
    task = kbz.TokenClassifier(encoder, tag_labels(sentences), preprocessor, dropout=0.0)
    encoded = encode_tagged(task, sentences)
    assert len(encoded) > 30
    task.compile(kbz.adamw(3e-3, 60 * -(-len(encoded) // 8), 10), clip_norm=1.0)
    task.fit(encoded.training_batches(8), epochs=60, verbose=0)
    gold, predicted = [s.tags for s in sentences], task.tag([s.words for s in sentences])
    assert score_entities(gold, predicted)["f1"] > 0.95
    assert score_entities(gold[-1:], predicted[-1:])["f1"] > 0.9
