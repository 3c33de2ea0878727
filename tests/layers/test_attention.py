"""Self-attention against plain NumPy, under every mask and dtype."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert_zoo.layers.attention import SelfAttention

BATCH, LENGTH, WIDTH, HEADS = 3, 7, 12, 3


def to_numpy(x):
    return keras.ops.convert_to_numpy(keras.ops.cast(x, "float32"))


def make_layer(dtype="float32", dropout=0.0, seed=0):
    """A layer whose probabilities are far from uniform and whose biases are not zero."""
    layer = SelfAttention(HEADS, dropout=dropout, dtype=dtype)
    layer.build((None, None, WIDTH))
    random = np.random.default_rng(seed)
    for weight in layer.trainable_weights:
        weight.assign(random.normal(scale=0.5, size=weight.shape))
    return layer


@pytest.fixture(scope="module")
def inputs():
    return np.random.default_rng(1).normal(size=(BATCH, LENGTH, WIDTH)).astype(np.float32)


def padding(*lengths):
    return (np.arange(LENGTH) < np.array(lengths)[:, None]).astype(np.int32)


def plain(layer, inputs, visible):
    """Attention one head, one row at a time. `visible`: bool (B, L, L)."""
    fused, last = layer.query_key_value, layer.output_dense
    joined = inputs @ to_numpy(fused.kernel) + to_numpy(fused.bias)
    size = WIDTH // HEADS
    probabilities = np.zeros((BATCH, HEADS, LENGTH, LENGTH))
    contexts = np.zeros((BATCH, LENGTH, WIDTH))
    for row in range(BATCH):
        for head in range(HEADS):
            columns = slice(head * size, (head + 1) * size)
            query, key, value = (
                joined[row, :, part * WIDTH :][:, columns].astype(np.float64) for part in range(3)
            )
            scores = query @ key.T / np.sqrt(size)
            scores = np.where(visible[row], scores, -np.inf)
            shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
            shares /= shares.sum(axis=-1, keepdims=True)
            probabilities[row, head] = shares
            contexts[row, :, columns] = shares @ value
    return contexts @ to_numpy(last.kernel) + to_numpy(last.bias), probabilities


BLOCKS = np.array([[0] * LENGTH, [0, 0, 0, 1, 1, 2, 2], [5, 5, 1, 1, 1, 1, 9]], np.int32)
LENGTHS = (7, 4, 1)
MASKS = {
    "none": {},
    "padding": {"padding_mask": padding(*LENGTHS)},
    "bool padding": {"padding_mask": padding(*LENGTHS).astype(bool)},
    "causal": {"causal": True},
    "blocks": {"block_ids": BLOCKS},
    "padding and causal": {"padding_mask": padding(*LENGTHS), "causal": True},
    "causal and blocks": {"causal": True, "block_ids": BLOCKS},
}


def visible_keys(padding_mask=None, causal=False, block_ids=None):
    visible = np.ones((BATCH, LENGTH, LENGTH), bool)
    if padding_mask is not None:
        visible &= padding_mask.astype(bool)[:, None, :]
    if causal:
        visible &= np.tri(LENGTH, dtype=bool)
    if block_ids is not None:
        visible &= block_ids[:, None, :] == block_ids[:, :, None]
    return visible


@pytest.mark.parametrize("name", MASKS)
def test_equals_plain_numpy(inputs, name):
    layer, visible = make_layer(), visible_keys(**MASKS[name])
    outputs, probabilities = layer(inputs, return_probabilities=True, **MASKS[name])
    expected, shares = plain(layer, inputs, visible)
    np.testing.assert_allclose(to_numpy(outputs), expected, atol=2e-6)
    np.testing.assert_allclose(to_numpy(probabilities), shares, atol=1e-6)
    assert shares.max() > 0.8 or name == "none"  # The figures are no near-uniform averages.


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("name", MASKS)
def test_some_positions_are_as_among_all(inputs, name, dtype):
    layer = make_layer()
    positions = np.array([[0, 6, 3], [5, 5, 0], [1, 2, 0]], dtype)
    outputs, probabilities = layer(
        inputs, positions=positions, return_probabilities=True, **MASKS[name]
    )
    rows = np.arange(BATCH)[:, None]
    expected, shares = plain(layer, inputs, visible_keys(**MASKS[name]))
    np.testing.assert_allclose(to_numpy(outputs), expected[rows, positions], atol=2e-6)
    shares = shares.transpose(0, 2, 1, 3)[rows, positions].transpose(0, 2, 1, 3)
    np.testing.assert_allclose(to_numpy(probabilities), shares, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16", "mixed_float16", "float16"])
@pytest.mark.parametrize("name", [name for name in MASKS if name != "none"])
def test_hidden_keys_have_probability_exactly_zero(inputs, name, dtype):
    layer = make_layer(dtype)
    # Scores of hidden keys so large that a timid mask would let them through.
    large = inputs.copy()
    large[:, -2:] *= 30
    _, probabilities = layer(large, return_probabilities=True, **MASKS[name])
    visible = np.broadcast_to(visible_keys(**MASKS[name])[:, None], probabilities.shape)
    probabilities = to_numpy(probabilities)
    assert (probabilities[~visible] == 0).all()
    tolerance = 1e-5 if dtype == "float32" else 2e-2
    np.testing.assert_allclose(probabilities.sum(axis=-1), 1, atol=tolerance)


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16", "mixed_float16", "float16"])
@pytest.mark.parametrize("causal", [False, True])
def test_a_row_of_padding_alone_is_finite_with_its_gradient(inputs, dtype, causal):
    layer = make_layer(dtype)
    x = tf.constant(inputs)
    with tf.GradientTape() as tape:
        tape.watch(x)
        outputs, probabilities = layer(
            x, padding_mask=padding(0, 0, 5), causal=causal, return_probabilities=True
        )
        total = tf.reduce_sum(tf.cast(outputs, "float32"))
    for values in (outputs, probabilities, *tape.gradient(total, [x, *layer.trainable_weights])):
        assert np.isfinite(to_numpy(values)).all()


def test_later_tokens_do_not_matter_under_a_causal_mask(inputs):
    layer, changed = make_layer(), inputs.copy()
    changed[:, 4:] += 3
    before, after = (to_numpy(layer(x, causal=True)) for x in (inputs, changed))
    np.testing.assert_array_equal(before[:, :4], after[:, :4])
    assert np.abs(before[:, 4:] - after[:, 4:]).max() > 0.1
    without = [to_numpy(layer(x)) for x in (inputs, changed)]
    assert np.abs(without[0][:, :4] - without[1][:, :4]).max() > 0.1


@pytest.mark.parametrize("causal", [False, True])
def test_packed_texts_give_what_they_give_alone(inputs, causal):
    layer = make_layer()
    blocks = np.array([[0, 0, 0, 1, 1, 1, 1]] * BATCH, np.int32)
    packed = to_numpy(layer(inputs, block_ids=blocks, causal=causal))
    first = to_numpy(layer(inputs[:, :3], causal=causal))
    second = to_numpy(layer(inputs[:, 3:], causal=causal))
    np.testing.assert_allclose(packed, np.concatenate([first, second], axis=1), atol=2e-6)


def test_padded_texts_give_what_they_give_alone(inputs):
    layer = make_layer()
    padded = to_numpy(layer(inputs, padding_mask=padding(4, 4, 4)))
    np.testing.assert_allclose(padded[:, :4], to_numpy(layer(inputs[:, :4])), atol=2e-6)


def test_dropout_is_on_the_probabilities_in_training_alone(inputs):
    layer = make_layer(dropout=0.5)
    still = to_numpy(layer(inputs, training=False))
    np.testing.assert_array_equal(still, to_numpy(layer(inputs)))
    outputs, probabilities = layer(inputs, training=True, return_probabilities=True)
    assert np.abs(to_numpy(outputs) - still).max() > 0.1
    # Those returned are the ones before dropout.
    np.testing.assert_allclose(to_numpy(probabilities).sum(axis=-1), 1, atol=1e-5)
    # Only shares are dropped, never the bias of the output.
    layer = make_layer(dropout=0.999999)
    bias = to_numpy(layer.output_dense.bias)
    np.testing.assert_allclose(
        to_numpy(layer(inputs, training=True)), np.broadcast_to(bias, inputs.shape), atol=1e-6
    )


def test_refuses_heads_that_do_not_divide():
    with pytest.raises(ValueError, match=r"width 12, num_heads=5"):
        SelfAttention(5).build((None, None, 12))


def test_symbolic_shapes():
    outputs, probabilities = SelfAttention(HEADS)(
        keras.Input((None, WIDTH)), return_probabilities=True
    )
    assert outputs.shape == (None, None, WIDTH)
    assert probabilities.shape == (None, HEADS, None, None)


def test_round_trip_of_the_config():
    layer = SelfAttention(HEADS, dropout=0.3, initializer_range=0.5, name="a", dtype="bfloat16")
    again = SelfAttention.from_config(layer.get_config())
    assert again.get_config() == layer.get_config()
    assert (again.num_heads, again.dropout_rate, again.initializer_range) == (HEADS, 0.3, 0.5)
    assert again.name == "a"
    assert again.compute_dtype == "bfloat16"


def test_keras_file(inputs, tmp_path):
    x, mask = keras.Input((None, WIDTH)), keras.Input((None,), dtype="int32")
    layer = SelfAttention(HEADS, name="self_attention")
    model = keras.Model([x, mask], layer(x, padding_mask=mask, causal=True))
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    feed = [inputs, padding(*LENGTHS)]
    np.testing.assert_array_equal(to_numpy(model(feed)), to_numpy(again(feed)))
    mask_matters = to_numpy(again([inputs, padding(7, 7, 7)])) - to_numpy(again(feed))
    assert np.abs(mask_matters).max() > 1e-4
