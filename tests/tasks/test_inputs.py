"""Data that ends when it ends: no thread that tunes a dataset is waited for."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from tiny import tiny_classifier, tiny_preprocessor

from keras_bert_zoo.datasets.pipeline import encode
from keras_bert_zoo.tasks.inputs import steady


def test_tuning_is_left_out_unless_it_is_asked_for():
    dataset = tf.data.Dataset.range(3)
    assert steady(dataset).options().autotune.enabled is False
    options = tf.data.Options()
    options.autotune.enabled = True
    asked = dataset.with_options(options)
    assert steady(asked) is asked


@pytest.fixture
def seen(monkeypatch):
    """The datasets that Keras is given."""
    found = []

    def note(name):
        former = getattr(keras.Model, name)

        def method(self, x=None, *args, **kwargs):
            found.extend(v for v in (x, kwargs.get("validation_data")) if v is not None)
            return former(self, x, *args, **kwargs)

        monkeypatch.setattr(keras.Model, name, method)

    for name in ("fit", "evaluate", "predict"):
        note(name)
    return found


def test_keras_is_given_no_dataset_that_is_tuned(seen):
    texts, labels = ["good film", "bad film", "tea"], np.array([1, 0, 1])
    task = tiny_classifier()
    task.compile("sgd")
    ids = {name: part.numpy() for name, part in tiny_preprocessor()(texts).items()}
    rows = tf.data.Dataset.from_tensor_slices((ids, labels)).batch(2)
    named = tf.data.Dataset.from_tensor_slices((texts, labels)).batch(2)
    for data in (rows, named, encode(task.read_texts, texts, labels).training_batches(2)):
        task.fit(data, validation_data=data, verbose=0)
        task.evaluate(data, verbose=0)
    task.fit(texts, labels, validation_data=(texts, labels), verbose=0)
    task.predict(texts, verbose=0)
    by_arrays = task.predict(ids, batch_size=2, verbose=0)
    by_dataset = task.predict(rows.map(lambda x, _: x), verbose=0)
    np.testing.assert_allclose(by_arrays, by_dataset, atol=1e-6)
    assert len(seen) >= 12
    for dataset in seen:
        assert dataset.options().autotune.enabled is False
