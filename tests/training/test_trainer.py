"""The training loop: the step of `fit`, in parts, and exact after every kind of interruption."""

import os
import random
import signal
import subprocess
import time

import keras
import numpy as np
import pytest
import tensorflow as tf
from tiny import VOCABULARY, tiny_encoder
from trainings import (
    NO_DROPOUT,
    assert_same,
    batches_of,
    classified_rows,
    classifier,
    finish,
    launch,
    pretraining,
    pretraining_rows,
    start,
    train,
    weights_of,
)

import keras_bert_zoo as kbz
from keras_bert_zoo.training.trainer import Trainer


def test_it_trains_as_fit_does():
    rows = classified_rows(11)
    ours, fitted = classifier(hidden_dropout_prob=0.1), classifier(hidden_dropout_prob=0.1)
    trainer = Trainer(ours, kbz.adamw(1e-2, 9, 2), clip_norm=1.0)
    history = trainer.fit(batches_of(rows, 4), 9, steps_per_epoch=3, verbose=0).history
    fitted.compile(kbz.adamw(1e-2, 9, 2), clip_norm=1.0)
    dataset = tf.data.Dataset.from_tensor_slices(rows).batch(4)
    expected = fitted.fit(dataset, epochs=3, verbose=0).history
    assert_same(weights_of(ours), weights_of(fitted))
    for name in ("loss", "accuracy"):
        np.testing.assert_allclose(history[name], expected[name], rtol=1e-5)
    assert len(trainer.step_losses) == 9


@pytest.mark.parametrize("parts", [3, 50])
def test_accumulated_parts_are_the_whole_batch(parts):
    wide = {"initializer_range": 0.5}  # So that rows' losses differ much.
    for task, rows in ((pretraining, pretraining_rows(18)), (classifier, classified_rows(18))):
        settings = {"clip_norm": 0.5, "optimizer": keras.optimizers.SGD(0.1)}
        # Batches of 10 and 8 rows.
        whole, _ = train(task(**wide), rows, 10, 6, **settings)
        settings |= {"optimizer": keras.optimizers.SGD(0.1), "accumulation_steps": parts}
        in_parts, _ = train(task(**wide), rows, 10, 6, **settings)
        np.testing.assert_allclose(in_parts.step_losses, whole.step_losses, atol=1e-5)
        assert_same(weights_of(in_parts.task), weights_of(whole.task), 1e-5)
        assert int(in_parts.task.optimizer.iterations) == 6


def test_a_mean_of_the_parts_means_would_be_seen():
    x, y = pretraining_rows(16)
    task = pretraining(initializer_range=0.5)
    task.compile("sgd")
    losses = [
        float(task.compute_gradients(*tf.nest.map_structure(lambda t, c=c: t[c], (x, y)))[0])
        for c in (slice(0, 16), slice(0, 8), slice(8, 16))
    ]
    assert abs(np.mean(losses[1:]) - losses[0]) > 1e-3


def test_several_steps_a_call_change_nothing():
    rows = pretraining_rows(12)
    dropout = {"hidden_dropout_prob": 0.1}
    one, first = train(pretraining(**dropout), rows, 4, 7)
    several, second = train(pretraining(**dropout), rows, 4, 7, steps_per_call=3)
    assert_same(weights_of(one.task), weights_of(several.task))
    assert one.step_losses.tolist() == several.step_losses.tolist()
    assert first.history == second.history


class Interrupt(keras.callbacks.Callback):
    def __init__(self, at, error=KeyboardInterrupt):
        super().__init__()
        self.at, self.error = at, error

    def on_train_batch_end(self, batch, logs=None):
        if batch + 1 == self.at:
            raise self.error


def dropped():
    return pretraining(hidden_dropout_prob=0.2, attention_probs_dropout_prob=0.2)


def test_an_interrupted_training_goes_on_bit_for_bit(tmp_path):
    rows = pretraining_rows(20)
    settings = {"save_steps": 3, "clip_norm": 1.0}

    def optimizer():
        return kbz.adamw(1e-2, 12, 3)

    whole, history = train(dropped(), rows, 4, 12, optimizer(), **settings)
    settings["checkpoint_dir"] = tmp_path
    for at in (2, 5, 7):
        with pytest.raises(KeyboardInterrupt):
            train(dropped(), rows, 4, 12, optimizer(), callbacks=[Interrupt(at)], **settings)
    again, resumed = train(dropped(), rows, 4, 12, optimizer(), **settings)
    assert again.step_losses.tolist() == whole.step_losses.tolist()
    assert_same(weights_of(again.task), weights_of(whole.task))
    assert_same(again.task.optimizer.variables, whole.task.optimizer.variables)
    assert resumed.history == history.history
    assert again.snapshots.steps == [6, 9, 12]
    # Trained to the end, there is nothing left to do.
    finished, _ = train(dropped(), rows, 4, 12, optimizer(), **settings)
    assert finished.step_losses.tolist() == whole.step_losses.tolist()


@pytest.mark.parametrize("damage", ["cut", "flipped", "state", "missing"])
def test_a_damaged_snapshot_is_named_and_the_one_before_used(tmp_path, damage):
    rows = pretraining_rows(8)
    whole, _ = train(dropped(), rows, 4, 6)
    settings = {"save_steps": 2, "checkpoint_dir": tmp_path}
    train(dropped(), rows, 4, 6, **settings)
    newest = tmp_path / "step-00000006"
    arrays, state = newest / "arrays.npz", newest / "state.json"
    content = bytearray(arrays.read_bytes())
    if damage == "cut":
        arrays.write_bytes(content[: len(content) // 2])
    elif damage == "flipped":
        content[len(content) // 2] ^= 1
        arrays.write_bytes(content)
    elif damage == "state":
        state.write_text(state.read_text("utf-8").replace("left_out", "left_in"), "utf-8")
    else:
        arrays.unlink()
    with pytest.warns(UserWarning, match="step-00000006 is damaged.*The one before it is used"):
        again, _ = train(dropped(), rows, 4, 6, **settings)
    assert again.step_losses.tolist() == whole.step_losses.tolist()
    assert_same(weights_of(again.task), weights_of(whole.task))
    for path in tmp_path.glob("step-*/state.json"):
        path.write_text("{}", "utf-8")
    with pytest.raises(ValueError, match="There is no other"), pytest.warns(UserWarning):
        train(dropped(), rows, 4, 6, **settings)


def test_other_settings_are_refused_with_the_difference(tmp_path):
    rows = classified_rows(8)
    settings = {"checkpoint_dir": tmp_path, "settings": {"max_seq_length": 12}}
    train(classifier(), rows, 4, 2, kbz.adamw(1e-3, 10), **settings)
    with pytest.raises(ValueError, match=r"hidden_dropout_prob was 0.0 and is 0.3"):
        train(classifier(hidden_dropout_prob=0.3), rows, 4, 2, kbz.adamw(1e-3, 10), **settings)
    with pytest.raises(ValueError, match=r"peak was 0.001 and is 0.002"):
        train(classifier(), rows, 4, 2, kbz.adamw(2e-3, 10), **settings)
    with pytest.raises(ValueError, match=r"max_seq_length was 12 and is 16"):
        train(classifier(), rows, 4, 2, kbz.adamw(1e-3, 10), checkpoint_dir=tmp_path,
              settings={"max_seq_length": 16})  # fmt: skip
    other = kbz.TextPreprocessor(kbz.WordPieceTokenizer([*VOCABULARY[:-1], "new"]), 12)
    keras.utils.set_random_seed(1)
    task = kbz.TextClassifier(tiny_encoder(**NO_DROPOUT), ["bad", "good"], other, 0.0)
    with pytest.raises(ValueError, match="vocabulary was one of checksum"):
        train(task, rows, 4, 2, kbz.adamw(1e-3, 10), **settings)


def test_a_step_that_is_not_finite_is_left_out_and_named():
    x, y, weights = classified_rows(12)
    bad = weights.copy()
    bad[4:8] = np.nan  # The second batch of three.
    task = classifier()
    with pytest.warns(UserWarning, match=r"Batch 1 \(from 0\) gave the loss nan"):
        trainer, history = train(task, (x, y, bad), 4, 3)
    kept = tf.nest.map_structure(lambda t: np.concatenate([t[:4], t[8:]]), (x, y, weights))
    expected, _ = train(classifier(), kept, 4, 2)
    assert_same(weights_of(task), weights_of(expected.task))
    assert np.isnan(trainer.step_losses).tolist() == [False, True, False]
    assert np.isfinite(history.history["loss"][0])
    assert int(task.optimizer.iterations) == 2
    with pytest.raises(ValueError, match="3 steps in a row"), pytest.warns(UserWarning):
        train(classifier(), (x, y, weights * np.nan), 4, 9, max_nonfinite=3)


def test_rolling_back_leaves_the_batch_out(tmp_path):
    x, y, weights = classified_rows(12)
    weights[8:] = np.inf
    settings = {"checkpoint_dir": tmp_path, "save_steps": 1, "nonfinite": "roll_back"}
    with pytest.warns(UserWarning, match="Batch 2 .*roll_back"):
        trainer, _ = train(classifier(), (x, y, weights), 4, 3, **settings)
    assert len(trainer.step_losses) == 3
    kept = tf.nest.map_structure(lambda t: t[:8], (x, y, weights))
    expected, _ = train(classifier(), kept, 4, 2)
    assert_same(weights_of(trainer.task), weights_of(expected.task))


def test_validation_callbacks_and_the_best_snapshot(tmp_path):
    rows = classified_rows(16)
    task = classifier()
    scores = iter([0.5, 0.9, 0.7, 0.8, 0.6])

    class Stop(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            self.model.stop_training = epoch == 4

    trainer = Trainer(
        task, "sgd", checkpoint_dir=tmp_path / "snapshots", keep=1, monitor="f1", save_steps=2
    )
    path = tmp_path / "{epoch}.weights.h5"
    checkpoint = keras.callbacks.ModelCheckpoint(path, save_weights_only=True)
    history = trainer.fit(
        batches_of(rows, 4), 100, 4, lambda: {"f1": next(scores)}, [Stop(), checkpoint], verbose=0
    )
    assert history.history["val_f1"] == [0.5, 0.9, 0.7, 0.8, 0.6]
    assert trainer.snapshots.steps == [8, 20]
    assert len(list(tmp_path.glob("*.h5"))) == 5
    dataset = tf.data.Dataset.from_tensor_slices(rows).batch(5)
    told = trainer.stepper.evaluate(dataset)
    expected = task.evaluate(dataset, return_dict=True, verbose=0)
    for name in ("loss", "accuracy"):
        assert told[name] == pytest.approx(expected[name], rel=1e-5)


def test_averages_of_the_weights(tmp_path):
    rows, steps, decay = pretraining_rows(12), 6, 0.7
    seen, measured = [], []

    class See(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            seen.append([keras.ops.convert_to_numpy(w) for w in self.model.trainable_weights])

    def measure():
        measured.append([keras.ops.convert_to_numpy(w) for w in task.trainable_weights])
        return {}

    task = dropped()
    expected = [keras.ops.convert_to_numpy(weight) for weight in task.trainable_weights]
    settings = {"average_decay": decay, "checkpoint_dir": tmp_path / "a", "save_steps": 2}
    trainer, _ = train(task, rows, 4, steps, callbacks=[See()], validation=measure, **settings)
    for weights in seen:
        expected = [decay * e + (1 - decay) * w for e, w in zip(expected, weights, strict=True)]
    assert_same(measured[0], expected, 1e-6)
    assert_same([keras.ops.convert_to_numpy(w) for w in task.trainable_weights], seen[-1])
    with trainer.averaged() as averaged:
        assert averaged is task
        assert_same([keras.ops.convert_to_numpy(w) for w in task.trainable_weights], measured[0])
    settings["checkpoint_dir"] = tmp_path / "b"
    with pytest.raises(KeyboardInterrupt):
        train(dropped(), rows, 4, steps, callbacks=[Interrupt(5)], **settings)
    again, _ = train(dropped(), rows, 4, steps, **settings)
    assert_same([average.numpy() for average in again.stepper.averages], measured[0])
    with pytest.raises(ValueError, match="average_decay was 0.7 and is null"):
        train(dropped(), rows, 4, steps, **(settings | {"average_decay": None}))
    with pytest.raises(ValueError, match="no averages"), Trainer(dropped(), "sgd").averaged():
        pass
    with pytest.raises(ValueError, match="`average_decay`.*1.0"):
        Trainer(dropped(), "sgd", average_decay=1.0)


def test_wrong_arguments_are_told(tmp_path):
    task = classifier()
    for name in ("accumulation_steps", "steps_per_call", "save_steps", "max_nonfinite"):
        with pytest.raises(ValueError, match=f"`{name}`.*Received: 0"):
            Trainer(task, "sgd", **{name: 0})
    with pytest.raises(ValueError, match="needs a `checkpoint_dir`"):
        Trainer(task, "sgd", nonfinite="roll_back")
    used = keras.optimizers.SGD()
    used.build(task.trainable_variables)
    with pytest.raises(ValueError, match="has been built"):
        Trainer(task, used)
    rows = classified_rows(8)
    trainer = Trainer(task, "sgd")
    with pytest.raises(ValueError, match="end before step 3"):
        trainer.fit(lambda _: tf.data.Dataset.from_tensor_slices(rows).batch(4), 5, verbose=0)


def steps_told(folder):
    path = folder / "progress.txt"
    return len(path.read_text("utf-8").split()) if path.exists() else 0


def kill_at(process, folder, count, number=signal.SIGKILL):
    """Kills a process when it has told so many steps; says whether it was still there."""
    while process.poll() is None:
        if steps_told(folder) >= count:
            process.send_signal(number)
            process.communicate()
            return True
        time.sleep(0.002)
    finish(process)
    return False


def same_end(first, second):
    with np.load(first / "weights.npz") as a, np.load(second / "weights.npz") as b:
        assert a.files == b.files
        return all(np.array_equal(a[name], b[name]) for name in a.files)


def killed_again_and_again(tmp_path, kills, steps, *flags):
    """Trains once undisturbed, and once with kills at random steps; both end alike."""
    flags = (*flags, f"--steps={steps}", "--pause=0.02")
    finish(start(tmp_path / "whole", *flags))
    chance = random.Random(len(flags) + kills)
    done = 0
    for _ in range(kills):
        folder = tmp_path / "killed"
        process = start(folder, *flags)
        before = steps_told(folder)
        done += kill_at(process, folder, before + chance.randint(1, max(2, steps // kills)))
    finish(start(tmp_path / "killed", *flags))
    assert done == kills
    assert same_end(tmp_path / "whole", tmp_path / "killed")


def test_two_kills_at_random_steps_change_nothing(tmp_path):
    killed_again_and_again(tmp_path, 2, 30)


@pytest.mark.slow
@pytest.mark.parametrize("replicas", [1, 2])
def test_twelve_kills_at_random_steps_change_nothing(tmp_path, replicas):
    killed_again_and_again(tmp_path, 12, 200, f"--replicas={replicas}", "--save_steps=7")


def children(process):
    found = subprocess.run(["pgrep", "-P", str(process)], capture_output=True, text=True)
    return sorted(map(int, found.stdout.split()))


@pytest.mark.slow
def test_a_worker_killed_twice_changes_nothing(tmp_path):
    flags = ("--steps=40", "--pause=0.02")
    finish(launch(tmp_path / "whole", *flags))
    folder = tmp_path / "killed"
    process = launch(folder, *flags)
    for count in (7, 23):
        while len(children(process.pid)) < 2 or steps_told(folder) < count:
            assert process.poll() is None, process.communicate()[0]
            time.sleep(0.01)
        os.kill(children(process.pid)[1], signal.SIGKILL)
        time.sleep(1)
    finish(process)
    assert same_end(tmp_path / "whole", folder)


def test_sigterm_saves_and_leaves_with_its_status(tmp_path):
    flags = ("--steps=30", "--save_steps=1000", "--pause=0.02")
    finish(start(tmp_path / "whole", *flags))
    process = start(tmp_path / "ended", *flags)
    assert kill_at(process, tmp_path / "ended", 5, signal.SIGTERM)
    assert process.returncode == 143
    saved = list((tmp_path / "ended" / "snapshots").glob("step-*"))
    assert len(saved) == 1 and int(saved[0].name[-8:]) >= 5
    finish(start(tmp_path / "ended", *flags))
    assert same_end(tmp_path / "whole", tmp_path / "ended")
