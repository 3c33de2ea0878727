"""Rows for pretraining, checked against a corpus in which every token tells where it stands."""

import itertools
import types

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_zoo.datasets.corpus import PretrainingCorpus
from keras_bert_zoo.datasets.pretraining import pretraining_dataset
from keras_bert_zoo.text.wordpiece import WordPieceTokenizer

PAD, UNK, CLS, SEP, MASK = range(5)


def number_tokens(*documents):
    """A corpus from sentence lengths; the tokens are 5, 6, 7, … throughout."""
    total = sum(map(sum, documents))
    tokenizer = types.SimpleNamespace(
        vocabulary_size=total + 5,
        pad_id=PAD,
        unk_id=UNK,
        cls_id=CLS,
        sep_id=SEP,
        mask_id=MASK,
        continuation_mask=np.zeros(total + 5, bool),
    )
    tokens = iter(range(5, total + 5))
    return PretrainingCorpus(
        [[[next(tokens) for _ in range(size)] for size in sizes] for sizes in documents], tokenizer
    )


@pytest.fixture(scope="module")
def corpus():
    """Documents of 1 to 40 sentences; a third of them have one."""
    rng = np.random.default_rng(0)
    counts = np.where(rng.random(1500) < 0.33, 1, rng.integers(2, 41, 1500))
    return number_tokens(*(rng.integers(1, 20, count).tolist() for count in counts))


def rows_of(corpus, length=64, batch=256, **arguments):
    """All rows of a dataset as one dict of arrays, the masked tokens put back in `tokens`."""
    batches = [
        {**inputs, **targets}
        for inputs, targets in pretraining_dataset(corpus, length, batch, **arguments)
    ]
    rows = {name: np.concatenate([b[name].numpy() for b in batches]) for name in batches[0]}
    tokens = rows["token_ids"].copy()
    row, slot = np.nonzero(rows["masked_weights"])
    tokens[row, rows["masked_positions"][row, slot]] = rows["masked_ids"][row, slot]
    return rows | {"tokens": tokens}


class Segments:
    """Where the segments of rows begin and end in the corpus, after a check of the layout."""

    def __init__(self, corpus, rows):
        tokens, segment = rows["tokens"], rows["segment_ids"]
        size = rows["padding_mask"].sum(1)
        self.length = tokens.shape[1]
        self.second_size = np.maximum(segment.sum(1) - 1, 0)
        self.first_size = size - 2 - segment.sum(1)
        assert (self.first_size > 0).all()
        place = np.arange(self.length)
        second = self.first_size[:, None] + 2
        assert (rows["padding_mask"] == (place < size[:, None])).all()
        assert (segment == ((place >= second) & (place < size[:, None]))).all()
        assert (tokens[:, 0] == CLS).all() and (tokens[place >= size[:, None]] == PAD).all()
        seps = (place == second - 1) | (place == size[:, None] - 1)
        assert ((tokens == SEP) == seps).all()
        # Tokens count on by one within a segment.
        inside = (tokens[:, 1:] >= 5) & (tokens[:, :-1] >= 5)
        assert (np.diff(tokens, axis=1)[inside] == 1).all()
        row = np.arange(len(tokens))
        self.first = tokens[:, 1] - 5
        self.first_end = self.first + self.first_size
        self.second = tokens[row, np.minimum(self.first_size + 2, self.length - 1)] - 5
        self.second_end = self.second + self.second_size
        self.is_pair = self.second_size > 0
        splits = corpus.sentence_splits[corpus.document_splits]
        self.document = np.searchsorted(splits, self.first, "right") - 1
        self.second_document = np.searchsorted(splits, self.second, "right") - 1
        self.document_ends = splits[1:]
        assert (self.first_end <= splits[1:][self.document]).all()
        in_one = self.second_end <= splits[1:][self.second_document]
        assert in_one[self.is_pair].all()
        self.is_full = size == self.length


@pytest.fixture(scope="module")
def epoch(corpus):
    rows = rows_of(corpus, epochs=1, seed=4)
    return rows, Segments(corpus, rows)


def test_true_pairs_follow_and_random_ones_come_from_another_document(corpus, epoch):
    """BC-D07: 0 is IsNext, 1 is not."""
    rows, segments = epoch
    label = rows["next_sentence"]
    true, random = segments.is_pair & (label == 0), label == 1
    assert true.any() and random.any() and segments.is_pair[random].all()
    same = segments.document == segments.second_document
    assert same[true].all() and not same[random].any()
    # Without truncation B begins where A ends; with it, tokens between them may be gone.
    assert (segments.second[true] >= segments.first_end[true]).all()
    whole = true & ~segments.is_full
    assert whole.any() and (segments.second == segments.first_end)[whole].all()
    # Untruncated segments are whole sentences.
    splits = corpus.sentence_splits
    for side in ("first", "first_end", "second", "second_end"):
        assert np.isin(getattr(segments, side)[segments.is_pair & ~segments.is_full], splits).all()


def test_documents_of_one_sentence_are_single_texts_without_a_label(corpus, epoch):
    rows, segments = epoch
    sizes = np.diff(corpus.document_splits)
    single = sizes[segments.document] == 1
    assert single.sum() == (sizes == 1).sum()
    np.testing.assert_array_equal(segments.is_pair, ~single)
    np.testing.assert_array_equal(rows["next_sentence_weights"], ~single)
    assert (rows["next_sentence"][single] == 0).all()
    assert (rows["masked_weights"][single].sum(1) > 0).all()
    assert (sizes[segments.second_document[segments.is_pair]] > 1).all()


def test_labels_are_balanced_in_every_epoch_and_change(corpus):
    rows = rows_of(corpus, epochs=6, shuffle=False)
    is_pair = rows["next_sentence_weights"].reshape(6, -1) == 1
    assert (is_pair == is_pair[0]).all()
    labels = rows["next_sentence"].reshape(6, -1)[:, is_pair[0]]
    count = labels.shape[1]
    assert {*labels.sum(1)} <= {count // 2, -(-count // 2)}
    agreement = np.mean([a == b for a, b in itertools.pairwise(labels)])
    assert abs(agreement - 0.5) < 0.02


def test_neither_lengths_nor_ends_tell_the_label(corpus):
    rows = rows_of(corpus, epochs=6, seed=1)
    segments = Segments(corpus, rows)
    pair = segments.is_pair
    label = rows["next_sentence"][pair]
    ends = np.isin(segments.second_end, segments.document_ends)
    sizes = np.diff(corpus.document_splits)
    for name, value in (
        ("first", segments.first_size),
        ("second", segments.second_size),
        ("total", segments.first_size + segments.second_size),
        ("full", segments.is_full),
        ("difference", abs(segments.first_size - segments.second_size)),
        ("ends its document", ends),
        ("sentences of its document", sizes[segments.second_document]),
    ):
        true, random = value[pair][label == 0], value[pair][label == 1]
        error = (true.var() / len(true) + random.var() / len(random)) ** 0.5
        assert abs(true.mean() - random.mean()) < 4 * error, name
    # The best guess from both lengths, learned on one half and tried on the other.
    key = (segments.second_size * segments.length + segments.first_size)[pair]
    half = len(key) // 2
    votes = np.zeros((segments.length**2, 2))
    np.add.at(votes, (key[:half], label[:half]), 1)
    accuracy = (votes[key[half:]].argmax(1) == label[half:]).mean()
    print(f"guessed from lengths: {accuracy:.3f} of {half}")
    assert abs(accuracy - 0.5) < 0.025


def test_truncation_takes_from_the_longer_and_from_both_ends():
    corpus = number_tokens([10, 100], [100, 10])
    rows = rows_of(corpus, length=64, epochs=200, short_sequence_rate=0)
    segments = Segments(corpus, rows)
    true = rows["next_sentence"] == 0
    sizes = set(zip(segments.first_size[true], segments.second_size[true], strict=True))
    assert sizes == {(10, 51), (51, 10)}
    cut = np.where(segments.document == 0, segments.second - 10, segments.first - 110)[true]
    assert cut.min() == 0 and cut.max() == 49 and len(set(cut)) > 30
    both = rows_of(number_tokens([90, 100], [100, 90]), length=64, epochs=3)
    segments = Segments(number_tokens([90, 100], [100, 90]), both)
    assert (segments.first_size == 31).all() and (segments.second_size == 30).all()


def test_short_rows():
    corpus = number_tokens(*[[2] * 63 * 20] * 20)
    rows = rows_of(corpus, 128, epochs=10, next_sentence=False)
    count = rows["padding_mask"].sum(1)
    short = count < 128
    assert abs(short.mean() - 0.1) < 0.015
    # Any length is as likely as any other.
    assert abs(count[short].mean() - 65) < 5
    full = rows_of(corpus, 128, epochs=1, next_sentence=False, short_sequence_rate=0.0)
    assert (full["padding_mask"] == 1).all()
    pairs = rows_of(corpus, 129, epochs=10)
    assert abs((pairs["padding_mask"].sum(1) < 129).mean() - 0.1) < 0.015


def test_an_epoch_is_the_whole_corpus():
    corpus = number_tokens([1] * 1000, [1], [1] * 37)
    rows = rows_of(corpus, 16, epochs=1, next_sentence=False, short_sequence_rate=0)
    seen = rows["tokens"][rows["tokens"] >= 5]
    np.testing.assert_array_equal(np.sort(seen), np.arange(5, 1038 + 5))
    assert "next_sentence" not in rows and "next_sentence_weights" not in rows
    assert (rows["segment_ids"] == 0).all()
    pairs = rows_of(corpus, 16, epochs=1, short_sequence_rate=0)
    first = pairs["tokens"][:, 1]
    assert len(set(first)) == len(first)


def test_left_over_sentence_is_paired_with_the_one_before():
    corpus = number_tokens([40, 30, 5], [30, 30])
    rows = rows_of(corpus, 73, epochs=1, short_sequence_rate=0, shuffle=False)
    assert rows["next_sentence_weights"].tolist() == [1, 1, 1]
    assert Segments(corpus, rows).first.tolist()[:2] == [0, 40]


def as_numpy(dataset, count=None):
    taken = dataset if count is None else dataset.take(count)
    return [tf.nest.map_structure(lambda x: x.numpy(), batch) for batch in taken]


def assert_same(left, right):
    assert len(left) == len(right)
    for one, other in zip(left, right, strict=True):
        tf.nest.map_structure(np.testing.assert_array_equal, one, other)


def test_resuming_continues_the_stream(corpus):
    settings = {"seed": 3, "masking_unit": "ngram"}
    whole = as_numpy(pretraining_dataset(corpus, 64, 500, **settings), 9)  # two epochs
    rest = as_numpy(pretraining_dataset(corpus, 64, 500, start_step=5, **settings), 4)
    assert_same(whole[5:], rest)
    tf.random.set_seed(99)
    assert_same(whole, as_numpy(pretraining_dataset(corpus, 64, 500, **settings), 9))
    other = as_numpy(pretraining_dataset(corpus, 64, 500, **settings | {"seed": 4}), 1)
    assert (other[0][0]["token_ids"] != whole[0][0]["token_ids"]).any()


def test_batch_size_does_not_change_the_rows():
    corpus = number_tokens(*[[7, 20, 3, 11, 8, 30, 2]] * 60, [4])
    one = rows_of(corpus, 64, 1, seed=3, epochs=2)
    many = rows_of(corpus, 64, 64, seed=3, epochs=2)
    assert len(one["token_ids"]) > 200
    for name in one:
        np.testing.assert_array_equal(one[name], many[name])


def test_epochs_differ_and_evaluation_does_not():
    """BC-D09."""
    corpus = number_tokens([5, 5, 9], [7, 8], [3, 4, 5, 6])
    rows = rows_of(corpus, 32, epochs=40, shuffle=False)["token_ids"].reshape(40, -1)
    assert len(np.unique(rows, axis=0)) == 40
    evaluation = pretraining_dataset(corpus, 32, 2, epochs=1, shuffle=False)
    assert_same(as_numpy(evaluation), as_numpy(evaluation))
    # `fit` goes through a dataset once for each of its epochs.
    training = pretraining_dataset(corpus, 32, 2, epochs=1)
    passes = [as_numpy(training) for _ in range(3)]
    for one, other in ((0, 1), (1, 2), (0, 2)):
        with pytest.raises(AssertionError):
            assert_same(passes[one], passes[other])
    assert_same(passes[0], as_numpy(pretraining_dataset(corpus, 32, 2, epochs=1)))
    assert int(training.cardinality()) == len(passes[0]) == len(passes[1])
    static = rows_of(corpus, 32, epochs=40, shuffle=False, static_masks=10)
    static = static["token_ids"].reshape(4, 10, -1)
    assert (static == static[:1]).all() and len(np.unique(static[0], axis=0)) == 10


def test_order_is_new_every_epoch(corpus):
    order = rows_of(corpus, 64, epochs=2, short_sequence_rate=0, next_sentence=False)["tokens"]
    first, second = np.split(order, 2)
    assert (first[:, 1] != second[:, 1]).mean() > 0.99
    straight = rows_of(
        corpus, 64, epochs=1, short_sequence_rate=0, next_sentence=False, shuffle=False
    )
    assert np.all(np.diff(straight["tokens"].max(1)) > 0)


def test_shapes_and_sizes(corpus):
    dataset = pretraining_dataset(corpus, 128, 8)
    inputs, targets = dataset.element_spec
    assert {n: (tuple(s.shape), s.dtype.name) for n, s in {**inputs, **targets}.items()} == {
        "token_ids": ((8, 128), "int32"),
        "segment_ids": ((8, 128), "int32"),
        "padding_mask": ((8, 128), "int32"),
        "masked_positions": ((8, 20), "int32"),
        "masked_ids": ((8, 20), "int32"),
        "masked_weights": ((8, 20), "float32"),
        "next_sentence": ((8,), "int32"),
        "next_sentence_weights": ((8,), "float32"),
    }
    assert set(targets) == {
        "masked_ids", "masked_weights", "next_sentence", "next_sentence_weights"
    }  # fmt: skip
    assert dataset.cardinality() == tf.data.INFINITE_CARDINALITY
    finite = pretraining_dataset(corpus, 64, 64, epochs=1)
    assert finite.cardinality() == len(list(finite))
    assert finite.element_spec[0]["token_ids"].shape.as_list() == [None, 64]
    dropped = pretraining_dataset(corpus, 64, 64, epochs=1, drop_remainder=True)
    assert dropped.element_spec[0]["token_ids"].shape == (64, 64)


def test_masking_options_reach_the_masker(corpus):
    rows = rows_of(corpus, 64, epochs=1, masking_rate=0.3, mask_share=1.0, random_share=0.0)
    assert rows["masked_ids"].shape[1] == 20
    assert (rows["token_ids"] == MASK).sum() == rows["masked_weights"].sum()
    noisy = rows_of(corpus, 64, epochs=1, data_noising=True, max_predictions=3)
    assert noisy["masked_ids"].shape[1] == 3


def test_one_document(vocabulary):
    """BC-D01."""
    tokenizer = WordPieceTokenizer(vocabulary)
    documents = [["the cat sat", "the dog ran", "a cat ran"]]
    corpus = PretrainingCorpus.from_documents(documents, tokenizer, verbose=False)
    with pytest.raises(ValueError, match="one document.*next_sentence=False"):
        pretraining_dataset(corpus, 32, 8, seed=7)
    rows = rows_of(corpus, 32, 8, epochs=20, seed=7, next_sentence=False)
    assert len(rows["tokens"]) == 20


def test_two_documents():
    """BC-D03: of 5 and 200 lines; then of 1 and 200."""
    for sizes in ([3] * 5, [3]):
        corpus = number_tokens(sizes, [3] * 200)
        rows = rows_of(corpus, 32, epochs=30)
        segments = Segments(corpus, rows)
        pair = rows["next_sentence_weights"] == 1
        np.testing.assert_array_equal(pair, segments.is_pair)
        assert abs(rows["next_sentence"][pair].mean() - 0.5) < 0.01
        random = rows["next_sentence"] == 1
        assert (segments.document != segments.second_document)[random].all()
        assert pair.all() == (len(sizes) > 1)


def test_documents_without_tokens_are_left_out(vocabulary):
    """BC-D03, the document whose only line tokenizes to nothing."""
    documents = [["the cat", "sat", "\u200b"], ["\u200b"], [], ["a dog", "ran"]]
    tokenizer = WordPieceTokenizer(vocabulary)
    corpus = PretrainingCorpus.from_documents(documents, tokenizer, verbose=False)
    assert (corpus.dropped_sentences, corpus.dropped_documents) == (2, 2)
    assert corpus.document_splits.tolist() == [0, 2, 4]
    assert corpus.sentence_splits.tolist() == [0, 2, 3, 5, 6]
    assert tokenizer.detokenize(corpus.tokens).numpy() == b"the cat sat a dog ran"
    assert "2 documents, 4 sentences, 6 tokens" in repr(corpus)
    rows = rows_of(corpus, 16, 4, epochs=10)
    assert (rows["next_sentence_weights"] == 1).all()
    for empty in ([], [[]], [["\u200b"]]):
        with pytest.raises(ValueError, match="corpus is empty"):
            PretrainingCorpus.from_documents(empty, tokenizer, verbose=False)
    with pytest.raises(ValueError, match="sequence of sentences"):
        PretrainingCorpus.from_documents(["the cat sat"], tokenizer, verbose=False)


def test_corpus_smaller_than_a_batch():
    corpus = number_tokens([4, 4], [5, 5], [6])
    endless = as_numpy(pretraining_dataset(corpus, 16, 64), 2)
    assert endless[1][0]["token_ids"].shape == (64, 16)
    assert [len(b[0]["token_ids"]) for b in as_numpy(pretraining_dataset(corpus, 16, 64, epochs=2))]
    with pytest.raises(ValueError, match=r"makes 3 rows .* 0 batches of 64"):
        pretraining_dataset(corpus, 16, 64, epochs=1, drop_remainder=True)


def test_very_long_sentences():
    corpus = number_tokens([1000, 1000], [5000], [700, 1])
    rows = rows_of(corpus, 32, epochs=50)
    segments = Segments(corpus, rows)
    assert segments.is_pair.any() and not segments.is_pair.all()


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"epochs": 0}, "epochs must be at least 1"),
        ({"static_masks": 0}, "static_masks must be at least 1"),
        ({"start_step": -1}, "start_step"),
        ({"sequence_length": 4}, "at least 5"),
        ({"sequence_length": 2, "next_sentence": False}, "at least 3"),
        ({"short_sequence_rate": 1.5}, "short_sequence_rate"),
        ({"masking_unit": "line"}, "unit must be"),
        ({"epochs": 1, "start_step": 10**6}, "no batch"),
    ],
)
def test_refuses_nonsense(corpus, arguments, message):
    arguments = {"sequence_length": 64, "batch_size": 8} | arguments
    with pytest.raises(ValueError, match=message):
        pretraining_dataset(corpus, **arguments)


def test_refuses_corpora_without_pairs_and_foreign_ids():
    with pytest.raises(ValueError, match="None of the 2 documents has two sentences"):
        pretraining_dataset(number_tokens([4], [5]), 16, 2)
    corpus = number_tokens([4], [5])
    with pytest.raises(ValueError, match="from 0 to 13"):
        PretrainingCorpus([[[14]]], corpus.tokenizer)


@pytest.fixture
def vocabulary():
    return ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "a", "cat", "dog", "sat", "ran"]
