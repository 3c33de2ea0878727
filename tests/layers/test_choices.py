"""Choices as rows, and back."""

import keras
import numpy as np
import pytest

from keras_bert_zoo.layers.choices import FoldChoices, UnfoldChoices

IDS = np.arange(2 * 3 * 4).reshape(2, 3, 4).astype("int32")


@pytest.mark.parametrize("length", [None, 4])
def test_there_and_back(tmp_path, length):
    ids = keras.Input((None, length), dtype="int32")
    rows = FoldChoices()(ids)
    sums = keras.ops.sum(rows, axis=-1, keepdims=True)
    model = keras.Model(ids, [rows, UnfoldChoices()(sums, ids)])
    assert [tuple(t.shape) for t in model.outputs] == [(None, length), (None, None)]
    model.save(tmp_path / "model.keras")
    for made in (model, keras.models.load_model(tmp_path / "model.keras")):
        folded, back = made(IDS)
        np.testing.assert_array_equal(folded, IDS.reshape(6, 4))
        np.testing.assert_array_equal(back, IDS.sum(axis=-1))
        # Another number of choices, and no example at all.
        np.testing.assert_array_equal(made(IDS[:, :1])[1], IDS[:, :1].sum(axis=-1))
        assert made(IDS[:0])[1].shape == (0, 3)
