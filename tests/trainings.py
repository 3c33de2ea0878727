"""Rows, tasks and trainings that the tests of the Trainer share."""

import os
import subprocess
import sys

import keras
import numpy as np
import tensorflow as tf
import trained
from conftest import ROOT
from tiny import VOCABULARY, tiny_encoder, tiny_preprocessor

import keras_bert_zoo as kbz
from keras_bert_zoo.training.trainer import Trainer

LENGTH, SLOTS = 12, 4
NO_DROPOUT = dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob"), 0.0)


def pretraining_rows(count, seed=0):
    """Rows with unequal numbers of masked tokens, some with none."""
    rng = np.random.default_rng(seed)
    ids = rng.integers(5, len(VOCABULARY), (count, LENGTH)).astype("int32")
    weights = np.arange(SLOTS) < rng.integers(0, SLOTS + 1, count)[:, None]
    x = {
        "token_ids": ids,
        "segment_ids": np.zeros_like(ids),
        "padding_mask": np.ones_like(ids),
        "masked_positions": rng.integers(1, LENGTH - 1, (count, SLOTS)).astype("int32"),
    }
    y = {
        "masked_ids": rng.integers(5, len(VOCABULARY), (count, SLOTS)).astype("int32"),
        "masked_weights": weights.astype("float32"),
        "next_sentence": rng.integers(0, 2, count).astype("int32"),
        "next_sentence_weights": rng.integers(0, 2, count).astype("float32"),
    }
    return x, y


def classified_rows(count, seed=0):
    """Rows with labels and weights."""
    x, _ = pretraining_rows(count, seed)
    x.pop("masked_positions")
    rng = np.random.default_rng(seed)
    return x, rng.integers(0, 2, count).astype("int32"), rng.random(count).astype("float32")


def batches_of(rows, size):
    dataset = tf.data.Dataset.from_tensor_slices(rows).batch(size).repeat()
    return lambda step: dataset.skip(step)


def pretraining(**changes):
    keras.utils.set_random_seed(1)
    return kbz.Pretraining(tiny_encoder(**(NO_DROPOUT | changes)))


def classifier(**changes):
    keras.utils.set_random_seed(1)
    rates = NO_DROPOUT | changes
    encoder, dropout = tiny_encoder(**rates), rates["hidden_dropout_prob"]
    return kbz.TextClassifier(encoder, ["bad", "good"], tiny_preprocessor(), dropout)


def weights_of(task):
    return [keras.ops.convert_to_numpy(weight) for weight in task.variables]


def assert_same(first, second, tolerance=0.0):
    for a, b in zip(first, second, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance)


def train(task, rows, size, steps, optimizer=None, **settings):
    fit = {name: settings.pop(name) for name in ("callbacks", "validation") if name in settings}
    trainer = Trainer(task, optimizer or keras.optimizers.SGD(0.5), **settings)
    history = trainer.fit(batches_of(rows, size), steps, verbose=0, **fit)
    return trainer, history


def start(folder, *flags):
    folder.mkdir(exist_ok=True)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])}
    return subprocess.Popen(
        [sys.executable, trained.__file__, folder, *flags],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def finish(process):
    said, _ = process.communicate()
    assert process.returncode == 0, said


def launch(folder, *flags):
    """Two workers of a training, and the launcher that starts them again."""
    folder.mkdir(exist_ok=True)
    return subprocess.Popen(
        [sys.executable, ROOT / "examples" / "launch_local_workers.py", "--",
         sys.executable, trained.__file__, folder, "--strategy=multi_worker", *flags],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
