"""The pooled vector."""

import keras
import numpy as np
import pytest

from keras_bert_zoo.layers.pooler import PooledPlace, Pooler

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


MASK = np.array([[1, 1, 1, 1], [1, 1, 0, 0], [0, 0, 0, 0], [1, 0, 1, 0]])


@pytest.mark.parametrize("dtype", ["int32", "bool"])
@pytest.mark.parametrize("last, places", [(False, [0, 0, 0, 0]), (True, [3, 1, 0, 2])])
def test_the_place_that_is_pooled_comes_first(last, places, dtype):
    layer, others = PooledPlace(last), np.array([[3, 0], [1, 1], [0, 2], [2, 3]])
    found = layer(MASK.astype(dtype))
    assert found.dtype == "int32"
    np.testing.assert_array_equal(found, np.array(places)[:, None])
    found = layer(MASK.astype(dtype), others)
    np.testing.assert_array_equal(found, np.concatenate([np.array(places)[:, None], others], 1))
    assert PooledPlace.from_config(layer.get_config()).last == last
