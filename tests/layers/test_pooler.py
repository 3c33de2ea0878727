"""The pooled vector."""

import keras
import numpy as np
import pytest

from keras_bert_zoo.layers.pooler import Pooler

X = np.random.default_rng(0).normal(size=(3, 4, 5)).astype(np.float32)


def make_pooler():
    pooler = Pooler(initializer_range=0.3, name="pooler")
    pooler.build((None, None, 5))
    for seed, weight in enumerate(pooler.weights):
        weight.assign(np.random.default_rng(seed).normal(size=weight.shape))
    return pooler


def test_is_a_dense_layer_with_tanh_on_the_first_token():
    pooler = make_pooler()
    kernel, bias = map(keras.ops.convert_to_numpy, (pooler.dense.kernel, pooler.dense.bias))
    pooled = keras.ops.convert_to_numpy(pooler(X))
    np.testing.assert_allclose(pooled, np.tanh(X[:, 0] @ kernel + bias), atol=1e-6)
    changed = X.copy()
    changed[:, 1:] = 9
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(pooler(changed)), pooled)


@pytest.mark.parametrize("length", [None, 4])
def test_keras_file(tmp_path, length):
    x = keras.Input((length, 5))
    model = keras.Model(x, make_pooler()(x))
    assert model.output_shape == (None, 5)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    assert again.layers[-1].initializer_range == 0.3
    before, after = (keras.ops.convert_to_numpy(m(X)) for m in (model, again))
    np.testing.assert_array_equal(before, after)
