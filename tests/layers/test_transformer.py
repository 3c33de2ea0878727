"""The transformer block against NumPy, its masks, its config."""

import math

import keras
import numpy as np
import pytest

from keras_bert_zoo.layers.activations import gelu_tanh
from keras_bert_zoo.layers.transformer import TransformerBlock

WIDTH, LENGTH = 12, 6
MASK = np.array([[1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1]], np.int32)


def to_numpy(x):
    return keras.ops.convert_to_numpy(keras.ops.cast(x, "float32"))


def make_block(seed=0, **settings):
    settings = {"num_heads": 3, "intermediate_size": 20, "dropout": 0.0, "epsilon": 0.1} | settings
    block = TransformerBlock(attention_dropout=0.0, name="block", **settings)
    block.build((None, None, WIDTH))
    random = np.random.default_rng(seed)
    for weight in block.trainable_weights:
        weight.assign(random.normal(scale=0.5, size=weight.shape))
    return block


@pytest.fixture(scope="module")
def inputs():
    return np.random.default_rng(1).normal(size=(2, LENGTH, WIDTH)).astype(np.float32)


def dense(layer, x):
    return x @ to_numpy(layer.kernel) + to_numpy(layer.bias)


def normalize(layer, x, epsilon):
    x = x - x.mean(axis=-1, keepdims=True)
    x = x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + epsilon)
    return x * to_numpy(layer.gamma) + to_numpy(layer.beta)


@pytest.mark.parametrize(
    "activation, formula",
    [
        ("gelu", np.vectorize(lambda v: 0.5 * v * (1 + math.erf(v / math.sqrt(2))))),
        ("relu", lambda x: np.maximum(x, 0)),
    ],
)
def test_equals_plain_numpy(inputs, activation, formula):
    """Norms come after the residuals; the attention has a test of its own."""
    block = make_block(activation=activation)
    outputs = to_numpy(block(inputs, padding_mask=MASK))
    attended = to_numpy(block.attention(inputs, padding_mask=MASK))
    x = normalize(block.attention_norm, inputs + attended, 0.1)
    inner = formula(dense(block.intermediate, x))
    expected = normalize(block.output_norm, x + dense(block.output_dense, inner), 0.1)
    np.testing.assert_allclose(outputs, expected, atol=5e-6)


@pytest.mark.parametrize(
    "mask",
    [
        {"padding_mask": MASK},
        {"causal": True},
        {"block_ids": np.array([[0, 0, 1, 1, 1, 2]] * 2, np.int32)},
    ],
    ids=lambda mask: next(iter(mask)),
)
def test_masks_reach_the_attention(inputs, mask):
    block = make_block()
    outputs, probabilities = block(inputs, return_probabilities=True, **mask)
    _, expected = block.attention(inputs, return_probabilities=True, **mask)
    np.testing.assert_array_equal(to_numpy(probabilities), to_numpy(expected))
    assert np.abs(to_numpy(outputs) - to_numpy(block(inputs))).max() > 1e-3


def test_both_dropouts_act_in_training_alone(inputs):
    still = to_numpy(make_block(dropout=0.5)(inputs, training=False))
    np.testing.assert_array_equal(still, to_numpy(make_block()(inputs, training=True)))
    assert np.abs(to_numpy(make_block(dropout=0.5)(inputs, training=True)) - still).max() > 0.1


def test_round_trip_of_the_config(inputs):
    settings = {
        "num_heads": 3,
        "intermediate_size": 20,
        "activation": "gelu_new",
        "dropout": 0.2,
        "attention_dropout": 0.3,
        "epsilon": 0.5,
        "initializer_range": 0.3,
        "name": "other",
    }
    block = TransformerBlock(**settings, dtype="mixed_bfloat16")
    config = block.get_config()
    assert {key: config[key] for key in settings} == settings
    again = TransformerBlock.from_config(config)
    assert again.get_config() == config
    assert again.attention.dropout_rate == 0.3
    assert again(inputs).dtype == "bfloat16"


@pytest.mark.parametrize("activation", ["gelu", "gelu_new", gelu_tanh])
def test_keras_file(inputs, tmp_path, activation):
    x, mask = keras.Input((None, WIDTH)), keras.Input((None,), dtype="int32")
    block = make_block(activation=activation)
    model = keras.Model([x, mask], block(x, padding_mask=mask))
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    before, after = (to_numpy(m([inputs, MASK])) for m in (model, again))
    np.testing.assert_array_equal(before, after)
