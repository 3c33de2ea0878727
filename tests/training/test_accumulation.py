"""Parts that are accumulated are the whole batch, to its last row (BC-G01)."""

import json

import pytest
from conftest import ROOT

PROGRAM = """
import json
import keras
import numpy as np
import tensorflow as tf
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)

import trainings

rows = trainings.classified_rows(28)

class Keep(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        optimizer = self.model.optimizer
        counted = [
            float(keras.ops.convert_to_numpy(each))
            for each in (optimizer.iterations, optimizer.learning_rate)
        ]
        weights = [weight.ravel() for weight in trainings.weights_of(self.model)]
        kept.append((np.concatenate(weights), counted))

def train(strategy, parts):
    kept.clear()
    with strategy.scope():
        task = trainings.classifier()
    rate = keras.optimizers.schedules.PiecewiseConstantDecay([0, 1], [0.1, 0.05, 0.025])
    trainings.train(
        task, rows, 16, 2, keras.optimizers.SGD(rate),
        strategy=strategy, accumulation_steps=parts, callbacks=[Keep()],
    )
    return list(kept)

kept = []
one = tf.distribute.get_strategy()
two = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
whole = train(one, 1)
told = {"counted": [counted for _, counted in whole]}
told["moved"] = float(np.abs(whole[1][0] - whole[0][0]).max())
told["others"] = [
    [(float(np.abs(a - b).max()), counted) for (a, counted), (b, _) in zip(found, whole)]
    for found in (train(one, 4), train(two, 4))
]
print(json.dumps(told))
"""


def test_accumulated_rows_are_one_batch(run_python):
    """BC-G01: 16 rows, at once and as 4 parts of 4, on one device and on two; then 12 rows.

    The 12 rows are applied as a step of their own, and the rate follows the applied steps.
    """
    said = run_python(PROGRAM, env={"PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"})
    told = json.loads(said.splitlines()[-1])
    assert told["moved"] > 1e-3
    assert told["counted"] == [[1, pytest.approx(0.05)], [2, pytest.approx(0.025)]]
    for steps in told["others"]:
        for (difference, counted), expected in zip(steps, told["counted"], strict=True):
            assert difference < 1e-6 and counted == expected
