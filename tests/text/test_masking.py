"""Masking over 100,000 rows: how many, which, what instead, and that only the key decides."""

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_zoo.text.masking import DynamicMasker, default_max_predictions

PAD, UNK, CLS, SEP, MASK = range(5)
SPECIAL = np.array([PAD, UNK, CLS, SEP, MASK])
SIZE, LENGTH, ROWS, PREDICTIONS = 1000, 64, 100_000, 8
IDS = {"pad_id": PAD, "unk_id": UNK, "cls_id": CLS, "sep_id": SEP, "mask_id": MASK}
CONTINUES = np.zeros(SIZE, bool)
CONTINUES[700:] = True


def make_masker(vocabulary_size=SIZE, max_predictions=PREDICTIONS, **arguments):
    return DynamicMasker(vocabulary_size, max_predictions=max_predictions, **IDS, **arguments)


@pytest.fixture(scope="module")
def rows():
    """Pairs of all lengths, with some [UNK] and [MASK] in the text; the last ones extreme."""
    rng = np.random.default_rng(0)
    ids = rng.integers(5, SIZE, (ROWS, LENGTH))
    ids[rng.random(ids.shape) < 0.03] = UNK
    ids[rng.random(ids.shape) < 0.01] = MASK
    count = rng.integers(3, LENGTH + 1, ROWS)
    count[-300:] = 2
    ids[-600:-300] = np.where(rng.random((300, LENGTH)) < 0.9, UNK, ids[-600:-300])
    place = np.arange(LENGTH)
    middle = (rng.random(ROWS) * (count - 2)).astype(int) + 1
    ids[place == middle[:, None]] = SEP
    ids[place == count[:, None] - 1] = SEP
    ids[:, 0] = CLS
    real = place < count[:, None]
    real[-100:] = False
    return np.where(real, ids, PAD).astype(np.int32), real.astype(np.int32)


def mask(masker, rows, epoch=0, start=0, batch=5000):
    """All outputs as numpy, and the chosen tokens as bool (N, L)."""
    run = tf.function(masker)
    parts = []
    for begin in range(0, len(rows[0]), batch):
        ids, real = (tf.constant(part[begin : begin + batch]) for part in rows)
        example = start + begin + tf.range(len(ids), dtype=tf.int64)
        parts.append(run(ids, real, tf.constant(epoch, tf.int64), example))
    out = {name: np.concatenate([part[name].numpy() for part in parts]) for name in parts[0]}
    chosen = np.zeros(rows[0].shape, bool)
    row, slot = np.nonzero(out["masked_weights"])
    chosen[row, out["masked_positions"][row, slot]] = True
    return out, chosen


def budgets(real):
    """SPEC of the count, with Python's own rounding."""
    return np.array([min(PREDICTIONS, max(1, round(0.15 * int(n)))) for n in real.sum(1)])


@pytest.fixture(scope="module")
def by_token(rows):
    return mask(make_masker(seed=1), rows)


def test_as_many_as_the_formula_says(rows, by_token):
    ids, real = rows
    out, chosen = by_token
    maskable = (real == 1) & ~np.isin(ids, [PAD, CLS, SEP])
    expected = np.minimum(budgets(real), maskable.sum(1))
    np.testing.assert_array_equal(chosen.sum(1), expected)
    np.testing.assert_array_equal(out["masked_weights"].sum(1), expected)
    assert (expected == 0).any() and (expected == PREDICTIONS).any()


def test_never_special_tokens_but_unknown_ones_when_nothing_else_is_left(rows, by_token):
    ids, real = rows
    _, chosen = by_token
    assert not np.isin(ids[chosen], [PAD, CLS, SEP]).any() and (real[chosen] == 1).all()
    last_resort = np.isin(ids, [UNK, MASK]) & (real == 1)
    ordinary = ~np.isin(ids, SPECIAL)
    had_to = (chosen & last_resort).any(1)
    assert had_to.any()
    assert (chosen[had_to] >= ordinary[had_to]).all()


def test_outputs_are_in_order_and_tell_what_was_there(rows, by_token):
    ids, _ = rows
    out, chosen = by_token
    assert {name: value.dtype for name, value in out.items()} == {
        "token_ids": np.int32,
        "masked_positions": np.int32,
        "masked_ids": np.int32,
        "masked_weights": np.float32,
    }
    is_slot = out["masked_weights"] == 1
    assert set(np.unique(out["masked_weights"])) == {0, 1}
    np.testing.assert_array_equal(out["token_ids"][~chosen], ids[~chosen])
    there = np.take_along_axis(ids, out["masked_positions"], 1)
    np.testing.assert_array_equal(out["masked_ids"], np.where(is_slot, there, 0))
    assert (out["masked_positions"][~is_slot] == 0).all()
    steps = np.diff(out["masked_positions"], axis=1)
    assert (steps[is_slot[:, 1:]] > 0).all() and (np.diff(is_slot.astype(int)) <= 0).all()


def test_80_10_10(rows, by_token):
    ids, _ = rows
    out, chosen = by_token
    ordinary = chosen & ~np.isin(ids, SPECIAL)
    before, after = ids[ordinary], out["token_ids"][ordinary]
    random = (after != MASK) & (after != before)
    # One replacement in 995 is the token itself.
    assert abs((after == MASK).mean() - 0.8) < 0.005
    assert abs(random.mean() - 0.1 * 994 / 995) < 0.005
    assert abs((after == before).mean() - 0.1) < 0.005
    assert not np.isin(after[random], SPECIAL).any()
    counts = np.bincount(after[random], minlength=SIZE)[5:]
    assert counts.min() > 0 and counts.std() < 1.2 * counts.mean() ** 0.5


def test_every_ordinary_token_is_equally_likely():
    ids = np.array([[CLS] + [9] * 38 + [SEP]], np.int32).repeat(20_000, 0)
    _, chosen = mask(make_masker(), (ids, np.ones_like(ids)))
    share = chosen.mean(0)[1:-1]
    assert abs(share - 6 / 38).max() < 5 * (0.16 * 0.84 / 20_000) ** 0.5


def word_numbers(ids, real):
    """(N, L): tokens of the same word have the same number; -1 for tokens not to be masked."""
    maskable = (real == 1) & ~np.isin(ids, [PAD, CLS, SEP])
    ordinary = maskable & ~np.isin(ids, SPECIAL)
    before = np.pad(ordinary, [(0, 0), (1, 0)])[:, :-1]
    starts = maskable & ~(ordinary & before & CONTINUES[ids])
    return np.where(maskable, np.cumsum(starts, 1) - 1, -1)


@pytest.mark.parametrize("unit", ["whole_word", "ngram"])
def test_words_are_never_split_nor_the_budget_exceeded(rows, unit):
    ids, real = rows
    _, chosen = mask(make_masker(unit=unit, continuation_mask=CONTINUES), rows)
    assert (chosen.sum(1) <= budgets(real)).all()
    assert not np.isin(ids[chosen], [PAD, CLS, SEP]).any()
    number = word_numbers(ids, real)
    same_word = (number[:, 1:] == number[:, :-1]) & (number[:, 1:] >= 0)
    assert (chosen[:, 1:] == chosen[:, :-1])[same_word].all()
    full = (budgets(real) < PREDICTIONS) & (real.sum(1) > 10)
    share = chosen[full].sum() / real[full].sum()
    print(f"{unit}: {share:.4f} of the tokens masked")
    assert 0.14 < share < 0.155


def test_greedy_choice_leaves_no_word_out_that_would_fit(rows):
    ids, real = (part[:20_000] for part in rows)
    _, chosen = mask(make_masker(unit="whole_word", continuation_mask=CONTINUES), (ids, real))
    left = budgets(real) - chosen.sum(1)
    number = word_numbers(ids, real)
    for row in np.flatnonzero(left > 0)[:500]:
        open_words = number[row][(number[row] >= 0) & ~chosen[row]]
        assert not len(open_words) or np.bincount(open_words)[open_words].min() > left[row]


def test_ngrams_have_lengths_by_one_over_n():
    ids = np.full((600, 3000), 9, np.int32)
    masker = make_masker(
        unit="ngram", continuation_mask=CONTINUES, max_predictions=60, masking_rate=0.02
    )
    _, chosen = mask(masker, (ids, np.ones_like(ids)), batch=100)
    # Runs of chosen words. With so few of so many, hardly any two touch, and that the last ones
    # are short to fit in the budget weighs little.
    edges = np.diff(np.pad(chosen, [(0, 0), (1, 1)]).astype(int), axis=1)
    lengths = np.nonzero(edges == -1)[1] - np.nonzero(edges == 1)[1]
    share = np.bincount(lengths, minlength=4)[1:4] / len(lengths)
    np.testing.assert_allclose(share, np.array([6, 3, 2]) / 11, atol=0.02)


def test_same_key_same_masks_at_any_batch_size(rows):
    few = tuple(part[:128] for part in rows)
    for unit in ("token", "whole_word", "ngram"):
        masker = make_masker(unit=unit, continuation_mask=CONTINUES, seed=5)
        at_once, _ = mask(masker, few, epoch=3, batch=64)
        one_by_one, _ = mask(masker, few, epoch=3, batch=1)
        for name in at_once:
            np.testing.assert_array_equal(at_once[name], one_by_one[name], unit)


def test_masks_differ_between_epochs_examples_and_seeds(rows):
    ids = np.array([[CLS, *range(5, 67), SEP]], np.int32).repeat(1000, 0)
    same = (ids, np.ones_like(ids))
    _, base = mask(make_masker(seed=1), same)
    _, next_epoch = mask(make_masker(seed=1), same, epoch=1)
    _, other_seed = mask(make_masker(seed=2), same)
    for other in (next_epoch, other_seed, np.roll(base, 1, 0)):
        assert (base != other).any(1).mean() > 0.999
        # As many in common as chance gives: 8 of 62 twice.
        assert abs((base & other).sum(1).mean() - 64 / 62) < 0.15
    _, again = mask(make_masker(seed=1), same)
    np.testing.assert_array_equal(base, again)


def test_padding_is_neither_counted_nor_chosen():
    """BC-D05."""
    ids = np.array([[CLS, 201, 202, 203, SEP] + [PAD] * 59] * 50, np.int32)
    out, chosen = mask(make_masker(), (ids, (ids != PAD).astype(np.int32)))
    assert (chosen.sum(1) == 1).all() and set(np.nonzero(chosen)[1]) == {1, 2, 3}
    for length, expected in ((14, 2), (102, 15), (22, 3), (10, 2), (30, 4)):
        ids = np.array([[CLS] + [9] * (length - 2) + [SEP] + [PAD] * 7], np.int32)
        out, _ = mask(make_masker(max_predictions=20), (ids, (ids != PAD).astype(np.int32)))
        assert out["masked_weights"].sum() == expected


def test_masks_of_a_dataset_change_with_the_epoch_and_not_with_the_run():
    """BC-D09."""
    ids = np.array([[CLS, *range(5, 35), SEP]] * 4, np.int32)
    rows = tf.data.Dataset.from_tensor_slices((ids, np.ones_like(ids))).batch(4).repeat(3)

    def run():
        tf.random.set_seed(1)
        masker = make_masker(seed=9)
        masked = rows.enumerate().map(
            lambda epoch, row: masker(*row, epoch, tf.range(4, dtype=tf.int64))["token_ids"]
        )
        return [batch.numpy() for batch in masked]

    epochs = run()
    assert (epochs[0] != epochs[1]).any() and (epochs[1] != epochs[2]).any()
    np.testing.assert_array_equal(epochs, run())


def test_data_noising_follows_the_counts():
    counts = np.zeros(SIZE, np.int64)
    counts[[CLS, UNK]] = 10**9
    counts[[20, 30]] = 1, 3
    masker = make_masker(unigram_counts=counts, mask_share=0.0, random_share=1.0)
    ids = np.full((2000, LENGTH), 9, np.int32)
    out, chosen = mask(masker, (ids, np.ones_like(ids)))
    drawn = out["token_ids"][chosen]
    assert set(drawn) == {20, 30} and abs((drawn == 30).mean() - 0.75) < 0.02


def test_shapes_are_static_and_rows_may_be_shorter_than_the_budget():
    masker = make_masker(max_predictions=20)
    run = tf.function(masker).get_concrete_function(
        tf.TensorSpec([4, 16], tf.int32),
        tf.TensorSpec([4, 16], tf.int32),
        tf.TensorSpec([], tf.int64),
        tf.TensorSpec([4], tf.int64),
    )
    assert run.structured_outputs["masked_positions"].shape == (4, 20)
    assert run.structured_outputs["token_ids"].shape == (4, 16)
    ids = np.array([[CLS, 9, SEP]], np.int32)
    out, _ = mask(masker, (ids, np.ones_like(ids)))
    assert out["masked_positions"].tolist() == [[1] + [0] * 19]


def test_default_budget():
    assert [default_max_predictions(n) for n in (64, 128, 512, 256)] == [10, 20, 76, 39]
    assert default_max_predictions(128, 0.3) == 39


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"unit": "sentence"}, "unit must be one of"),
        ({"max_predictions": 0}, "at least 1"),
        ({"masking_rate": 0.0}, "masking_rate"),
        ({"mask_share": 0.9, "random_share": 0.2}, "exceed 1"),
        ({"unit": "ngram"}, "continuation_mask"),
        ({"unit": "ngram", "continuation_mask": [True]}, "1000 tokens"),
        ({"unigram_counts": np.zeros(SIZE)}, "count above 0"),
        ({"vocabulary_size": 5}, "not special"),
    ],
)
def test_refuses_nonsense(arguments, message):
    with pytest.raises(ValueError, match=message):
        make_masker(**arguments)
