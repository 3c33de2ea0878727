"""`ScalarMix` against plain NumPy."""

import keras
import numpy as np
import pytest

from keras_bert_zoo.layers.scalar_mix import ScalarMix

STATES = [np.random.default_rng(n).normal(size=(2, 3, 4)).astype("float32") for n in range(5)]


def test_it_starts_as_the_mean():
    layer = ScalarMix()
    np.testing.assert_allclose(layer(STATES), np.mean(STATES, axis=0), atol=1e-6)
    assert [tuple(weight.shape) for weight in layer.trainable_weights] == [(5,), ()]


@pytest.mark.parametrize("count", [1, 2, 5])
def test_the_formula(count):
    layer, states = ScalarMix(), STATES[:count]
    layer(states)
    scores = np.linspace(-3, 2, count)
    layer.set_weights([scores, np.array(1.7)])
    shares = np.exp(scores) / np.exp(scores).sum()
    expected = 1.7 * sum(share * state for share, state in zip(shares, states, strict=True))
    np.testing.assert_allclose(layer(states), expected, rtol=1e-5, atol=1e-6)


def test_half_precision_and_a_saved_model(tmp_path):
    inputs = [keras.Input((None, 4)) for _ in STATES]
    model = keras.Model(inputs, ScalarMix(dtype="mixed_bfloat16")(inputs))
    assert model.output.shape == (None, None, 4)
    model.layers[-1].set_weights([np.arange(5.0), np.array(2.0)])
    before = model(STATES)
    assert before.dtype == "bfloat16"
    model.save(tmp_path / "mix.keras")
    after = keras.saving.load_model(tmp_path / "mix.keras")(STATES)
    np.testing.assert_array_equal(before, after)
