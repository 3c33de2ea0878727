"""A small training with dropout, run as a process that may be killed at any moment.

python trained.py FOLDER [--replicas=2] [--strategy=multi_worker] [--steps=N] [--accumulate=A] ...

At the end it writes `FOLDER/weights.npz`: every weight, and the loss of every step.
"""

import argparse
import os
import pathlib
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import tensorflow as tf

PAIR_LENGTH = 24


def parse(arguments=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--task", default="pretraining", choices=("pretraining", "classifier"))
    parser.add_argument("--replicas", type=int, default=1)
    parser.add_argument("--strategy", default="one")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--save_steps", type=int, default=5)
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--per_call", type=int, default=1)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--optimizer", default="adamw")
    parser.add_argument("--rate", type=float, default=1e-2)
    parser.add_argument("--batch_size", type=int, default=8)
    parser.add_argument("--pause", type=float, default=0.0)
    parser.add_argument("--jit_compile", action="store_true")
    parser.add_argument("--dtype")
    return parser.parse_args(arguments)


def batches(options, strategy):
    """What `Trainer.fit` takes its batches from: of pairs a worker's own, else the global ones."""
    if options.task == "classifier":
        return classified(options.batch_size)
    return paired(options.batch_size, strategy)


def classified(size):
    """Epochs of 58 rows and of 33 in turn, whose last batches of 32 have 26 and 1."""
    from trainings import classified_rows

    rows = tf.data.Dataset.from_tensor_slices(classified_rows(91))
    dataset = rows.take(58).batch(size).concatenate(rows.skip(58).batch(size)).repeat()
    return lambda step: dataset.skip(step)


def paired(size, strategy):
    from tiny import VOCABULARY

    import keras_bert_zoo as kbz
    from keras_bert_zoo.datasets.corpus import PretrainingCorpus
    from keras_bert_zoo.datasets.pretraining import pretraining_dataset
    from keras_bert_zoo.training.strategies import worker_count_and_index

    rng = np.random.default_rng(0)
    documents = [
        [rng.integers(5, len(VOCABULARY), rng.integers(2, 9)).tolist() for _ in range(6)]
        for _ in range(40)
    ]
    texts = PretrainingCorpus(documents, kbz.WordPieceTokenizer(VOCABULARY))
    workers, worker = worker_count_and_index(strategy)
    return lambda step: pretraining_dataset(
        texts, PAIR_LENGTH, size, start_step=step, workers=workers, worker=worker
    )


def make_strategy(options):
    if options.strategy == "multi_worker":
        return tf.distribute.MultiWorkerMirroredStrategy()
    if options.replicas == 1:
        return tf.distribute.get_strategy()
    return tf.distribute.MirroredStrategy([f"CPU:{n}" for n in range(options.replicas)])


def make_trainer(options, strategy):
    import trainings

    import keras_bert_zoo as kbz
    from keras_bert_zoo.training.trainer import Trainer

    rates = dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob"), options.dropout)
    of_pairs = options.task == "pretraining"
    length = PAIR_LENGTH if of_pairs else trainings.LENGTH
    make = trainings.pretraining if of_pairs else trainings.classifier
    with strategy.scope():
        task = make(
            sequence_length=length if options.jit_compile else None, dtype=options.dtype, **rates
        )
    # Outside of the scope, as users may have it.
    if options.optimizer == "sgd":
        optimizer = keras.optimizers.SGD(options.rate)
    else:
        optimizer = kbz.adamw(options.rate, options.steps, 4)
    return Trainer(
        task,
        optimizer,
        strategy,
        clip_norm=1.0,
        accumulation_steps=options.accumulate,
        steps_per_call=options.per_call,
        average_decay=0.9,
        jit_compile=options.jit_compile,
        checkpoint_dir=pathlib.Path(options.folder) / "snapshots",
        save_steps=options.save_steps,
    )


def main():
    options = parse()
    if options.replicas > 1:
        cpu = tf.config.list_physical_devices("CPU")[0]
        devices = [tf.config.LogicalDeviceConfiguration()] * options.replicas
        tf.config.set_logical_device_configuration(cpu, devices)
    run(options)


def run(options):
    """Trains in this process, and writes the files; returns the Trainer."""
    trainer = make_trainer(options, make_strategy(options))
    told = pathlib.Path(options.folder) / "progress.txt"

    class Tell(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if trainer.is_chief:
                with open(told, "a", encoding="utf-8") as file:
                    print(len(trainer.step_losses), file=file)
            time.sleep(options.pause)

    of_pairs = options.task == "pretraining"
    trainer.fit(
        batches(options, trainer.strategy),
        options.steps,
        callbacks=[Tell()],
        verbose=0,
        of_worker=of_pairs,
    )
    if trainer.is_chief:
        weights = {
            f"w{number}": keras.ops.convert_to_numpy(weight)
            for number, weight in enumerate(trainer.task.variables)
        }
        path = pathlib.Path(options.folder) / "weights.npz"
        averages = {
            f"a{number}": keras.ops.convert_to_numpy(average)
            for number, average in enumerate(trainer.stepper.averages)
        }
        np.savez(path, losses=trainer.step_losses, **weights, **averages)
    return trainer


if __name__ == "__main__":
    main()
