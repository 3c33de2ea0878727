"""mixed_float16 in the Trainer: a scale of the loss that finds its place, also after a restart."""

import keras
import numpy as np
import pytest
from conftest import ROOT
from trainings import (
    LENGTH,
    assert_same,
    classified_rows,
    classifier,
    train,
    weights_of,
)


def half():
    return classifier(dtype="mixed_float16")


def scaled(scale, rate=0.1, growth=2000):
    inner = keras.optimizers.SGD(rate)
    return keras.optimizers.LossScaleOptimizer(inner, scale, dynamic_growth_steps=growth)


def scale_of(trainer):
    return float(keras.ops.convert_to_numpy(trainer.task.optimizer.dynamic_scale))


@pytest.mark.parametrize("settings", [{}, {"accumulation_steps": 2}, {"jit_compile": True}])
def test_it_trains_as_float32_does(settings):
    rows, length = classified_rows(8), LENGTH if settings.get("jit_compile") else None
    tasks = [classifier(dtype=dtype, sequence_length=length) for dtype in (None, "mixed_float16")]
    float32, float16 = (
        train(task, rows, 4, 20, keras.optimizers.SGD(0.2), clip_norm=1.0, **settings)[0]
        for task in tasks
    )
    assert isinstance(float16.task.optimizer, keras.optimizers.LossScaleOptimizer)
    assert scale_of(float16) == 2.0**15
    np.testing.assert_allclose(float16.step_losses, float32.step_losses, rtol=0, atol=5e-3)
    assert int(float16.task.optimizer.iterations) == 20


def test_an_overflow_halves_the_scale_and_skips_the_step():
    rows = classified_rows(4)
    with pytest.warns(UserWarning, match="beyond the range of float16.*skipped.*halved") as warned:
        trainer, history = train(
            half(), rows, 4, 12, scaled(2.0**24), average_decay=0.5, steps_per_call=4,
            max_nonfinite=12,
        )  # fmt: skip
    applied = int(trainer.task.optimizer.iterations)
    told = [str(w.message) for w in warned if "beyond the range" in str(w.message)]
    skipped = [int(each.split()[1]) for each in told]
    assert skipped[:2] == [0, 1] and len(skipped) < 12
    assert applied == 12 - len(skipped)
    assert scale_of(trainer) == 2.0 ** (24 - len(skipped))
    # The skipped steps leave the weights, their averages and the means of the epoch alone.
    losses = trainer.step_losses
    assert np.isfinite(losses).all() and losses[0] == losses[1]
    kept = np.delete(losses, skipped)
    assert history.history["loss"][0] == pytest.approx(kept.mean())
    expected, _ = train(half(), rows, 4, applied, scaled(scale_of(trainer)), average_decay=0.5)
    # Gradients that are scaled otherwise are rounded otherwise where they are tiny.
    assert_same(weights_of(trainer.task), weights_of(expected.task), 1e-5)
    averages = [[a.numpy() for a in each.stepper.averages] for each in (trainer, expected)]
    assert_same(*averages, 1e-5)


def test_an_overflow_is_not_the_batch_s_fault(tmp_path):
    """It is not rolled back, which would set the scale to what it was."""
    settings = {"nonfinite": "roll_back", "checkpoint_dir": tmp_path, "save_steps": 1}
    with pytest.warns(UserWarning, match="halved") as warned:
        trainer, _ = train(half(), classified_rows(4), 4, 14, scaled(2.0**24), max_nonfinite=12,
                           **settings)  # fmt: skip
    assert not any("left out" in str(w.message) for w in warned)
    assert int(trainer.task.optimizer.iterations) > 0 and scale_of(trainer) < 2.0**24


def test_a_bad_batch_leaves_the_scale_alone():
    x, y, weights = classified_rows(8)
    weights[4:] = np.nan
    with pytest.warns(UserWarning, match=r"Batch 1 \(from 0\) gave the loss nan"):
        trainer, _ = train(half(), (x, y, weights), 4, 2)
    assert scale_of(trainer) == 2.0**15
    assert int(trainer.task.optimizer.iterations) == 1


@pytest.mark.filterwarnings("ignore:Batch")
def test_too_many_in_a_row_stop_it():
    with pytest.raises(ValueError, match="2 steps in a row"):
        train(half(), classified_rows(4), 4, 12, scaled(2.0**60), max_nonfinite=2)


REPLICAS = """
import keras
import tensorflow as tf
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)

import trainings
from keras_bert_zoo.training.trainer import Trainer

strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    task = trainings.classifier(dtype="mixed_float16")
try:
    Trainer(task, "sgd", strategy)
except ValueError as error:
    print(error)
"""


def test_several_replicas_are_refused(run_python):
    said = run_python(REPLICAS, env={"PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"})
    assert said.splitlines()[-1] == (
        "mixed_float16 scales the loss, and the scale is not kept alike on several replicas: use "
        "mixed_bfloat16, or one device."
    )


@pytest.mark.filterwarnings("ignore:Batch")
def test_a_restart_keeps_the_scale(tmp_path):
    class Interrupt(keras.callbacks.Callback):
        def __init__(self, at):
            super().__init__()
            self.at = at

        def on_train_batch_end(self, batch, logs=None):
            if batch + 1 == self.at:
                raise KeyboardInterrupt

    def begin(folder, callbacks=()):
        settings = {"save_steps": 1, "max_nonfinite": 12, "checkpoint_dir": tmp_path / folder}
        optimizer = scaled(2.0**22, growth=3)
        return train(half(), classified_rows(8), 4, 16, optimizer, callbacks=callbacks, **settings)

    whole, _ = begin("whole")
    for at in (3, 9, 13):
        with pytest.raises(KeyboardInterrupt):
            begin("cut", [Interrupt(at)])
    again, _ = begin("cut")
    assert scale_of(again) == scale_of(whole) != 2.0**22
    assert_same(again.task.optimizer.variables, whole.task.optimizer.variables)
    assert_same(weights_of(again.task), weights_of(whole.task))
    assert again.step_losses.tolist() == whole.step_losses.tolist()
