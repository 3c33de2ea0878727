"""Pooling of a sequence, against plain NumPy."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert_zoo.layers.pooling import SequencePooling

X = np.random.default_rng(0).normal(size=(4, 5, 6)).astype(np.float32)
MASK = np.array([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [1, 0, 0, 0, 0], [0, 0, 0, 0, 0]])


def expected(pooling, normalize):
    rows = []
    for vectors, mask in zip(X, MASK, strict=True):
        real = vectors[mask == 1]
        if len(real) == 0:
            rows.append(np.zeros(6))
        else:
            pool = {"mean": lambda v: v.mean(0), "max": lambda v: v.max(0), "cls": lambda v: v[0]}
            row = pool[pooling](real)
            rows.append(row / np.linalg.norm(row) if normalize else row)
    return np.array(rows)


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
def test_pools_real_tokens_alone(pooling, normalize):
    layer = SequencePooling(pooling, normalize)
    for mask in (MASK, MASK.astype(bool)):
        pooled = keras.ops.convert_to_numpy(layer(X, mask))
        np.testing.assert_allclose(pooled, expected(pooling, normalize), atol=1e-6)
    # What lies at padding has no part, whatever it is.
    for junk in (np.nan, np.inf, -np.inf, 1e30):
        changed = np.where(MASK[:, :, None] == 1, X, np.float32(junk))
        changed[3, 0] = 1
        again = keras.ops.convert_to_numpy(layer(changed, MASK))
        np.testing.assert_array_equal(again, pooled)


def test_the_default_is_the_bare_mean():
    assert SequencePooling().get_config()["pooling"] == "mean"
    np.testing.assert_allclose(SequencePooling()(X, MASK), expected("mean", False), atol=1e-6)


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16", "float32"])
def test_computes_in_float32(policy):
    """Under float16 the sum of so many ones would be infinite or rounded."""
    x = np.full((1, 4096, 2), 30.0, np.float16)
    layer = SequencePooling("mean", dtype=policy)
    pooled = layer(tf.constant(x), np.ones((1, 4096)))
    assert pooled.dtype == tf.float32
    np.testing.assert_allclose(pooled, [[30, 30]], rtol=1e-6)


@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
def test_gradients_are_finite(pooling):
    layer, x = SequencePooling(pooling, normalize=True), tf.Variable(X)
    x[1].assign(np.zeros((5, 6)))
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(layer(x, MASK) ** 3)
    gradient = tape.gradient(total, x).numpy()
    assert np.isfinite(gradient).all() and np.abs(gradient[0]).max() > 1e-3
    assert not gradient[3].any()


def test_a_short_vector_is_divided_by_a_bound():
    x = np.full((1, 1, 4), 1e-14, np.float32)
    pooled = keras.ops.convert_to_numpy(SequencePooling(normalize=True)(x, np.ones((1, 1))))
    np.testing.assert_allclose(pooled, 1e-2, rtol=1e-4)


def test_there_is_no_other_pooling():
    with pytest.raises(ValueError, match="one of mean, cls, max. Received: sum"):
        SequencePooling("sum")


@pytest.mark.parametrize("length", [None, 5])
def test_keras_file(tmp_path, length):
    x, mask = keras.Input((length, 6)), keras.Input((length,), dtype="int32")
    model = keras.Model([x, mask], SequencePooling("max", True)(x, mask))
    assert model.output_shape == (None, 6)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(model([X, MASK]), again([X, MASK]))
