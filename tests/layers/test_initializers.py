"""BERT's initial values, and none of them where others follow."""

import keras
import numpy as np
import pytest
from tiny import tiny_encoder

from keras_bert_zoo.layers.initializers import TruncatedNormal, undrawn


def test_values():
    values = np.array(TruncatedNormal(0.02)((400, 500)))
    assert np.abs(values).max() <= 0.04 + 1e-6
    # The cut leaves 0.88 of the standard deviation.
    assert values.std() == pytest.approx(0.02 * 0.8796, rel=0.01)
    assert abs(values.mean()) < 1e-3


def test_undrawn_gives_zeros_and_ends():
    with undrawn():
        assert not np.array(TruncatedNormal(0.02)((3, 4), "float16")).any()
        encoder = tiny_encoder()
    kernels = [w for w in encoder.weights if not w.path.endswith(("gamma", "beta", "bias"))]
    assert len(kernels) == 3 + 4 * 2 + 1
    assert not any(np.array(kernel).any() for kernel in kernels)
    assert all(np.array(w).all() for w in tiny_encoder().weights if w.path.endswith("kernel"))
    with pytest.raises(ZeroDivisionError), undrawn():
        raise ZeroDivisionError
    assert np.array(TruncatedNormal(0.02)((3, 4))).all()


def test_it_goes_through_a_config():
    again = keras.initializers.deserialize(keras.initializers.serialize(TruncatedNormal(0.3)))
    assert isinstance(again, TruncatedNormal)
    assert again.get_config() == {"stddev": 0.3}
