"""The masked-language-model head: the transform, the bias."""

import keras
import numpy as np
import pytest

from keras_bert_zoo.layers.activations import gelu_tanh
from keras_bert_zoo.layers.masked_lm import MaskedLMTransform, OutputBias

X = np.random.default_rng(0).normal(size=(3, 6, 5)).astype(np.float32)


def to_numpy(x):
    return keras.ops.convert_to_numpy(keras.ops.cast(x, "float32"))


def make_transform(**settings):
    transform = MaskedLMTransform(4, **({"activation": "relu", "epsilon": 0.1} | settings))
    transform.build((None, None, 5))
    for seed, weight in enumerate(transform.weights):
        weight.assign(np.random.default_rng(seed).normal(size=weight.shape))
    return transform


def test_equals_plain_numpy():
    transform = make_transform()
    x = np.maximum(X @ to_numpy(transform.dense.kernel) + to_numpy(transform.dense.bias), 0)
    x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 0.1)
    norm = transform.layer_norm
    expected = x * to_numpy(norm.gamma) + to_numpy(norm.beta)
    np.testing.assert_allclose(to_numpy(transform(X)), expected, atol=2e-6)


def test_no_positions():
    assert make_transform()(X[:, :0]).shape == (3, 0, 4)


@pytest.mark.parametrize("activation", ["gelu", gelu_tanh])
def test_keras_file(tmp_path, activation):
    x, bias = keras.Input((None, 5)), OutputBias(name="bias")
    model = keras.Model(x, bias(make_transform(activation=activation)(x)))
    bias.bias.assign([1.0, 2.0, 3.0, 4.0])
    assert model.output_shape == (None, None, 4)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    before, after = (to_numpy(m(X)) for m in (model, again))
    np.testing.assert_array_equal(before, after)


def test_round_trip_of_the_config():
    settings = {"activation": "gelu_new", "epsilon": 0.5, "initializer_range": 0.3, "name": "t"}
    config = MaskedLMTransform(7, **settings).get_config()
    assert {key: config[key] for key in settings} == settings
    assert MaskedLMTransform.from_config(config).get_config() == config


def test_the_bias_starts_at_zero_and_is_added():
    layer = OutputBias()
    np.testing.assert_array_equal(to_numpy(layer(X)), X)
    layer.bias.assign(np.arange(5.0))
    np.testing.assert_allclose(to_numpy(layer(X)), X + np.arange(5.0), rtol=1e-6)
