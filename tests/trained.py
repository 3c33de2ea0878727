"""A small pretraining with dropout, run as a process that may be killed at any moment.

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


def parse(arguments=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
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
    return parser.parse_args(arguments)


def corpus():
    from tiny import VOCABULARY

    import keras_bert_zoo as kbz
    from keras_bert_zoo.datasets.corpus import PretrainingCorpus

    rng = np.random.default_rng(0)
    documents = [
        [rng.integers(5, len(VOCABULARY), rng.integers(2, 9)).tolist() for _ in range(6)]
        for _ in range(40)
    ]
    return PretrainingCorpus(documents, kbz.WordPieceTokenizer(VOCABULARY))


def make_strategy(options):
    if options.strategy == "multi_worker":
        return tf.distribute.MultiWorkerMirroredStrategy()
    if options.replicas == 1:
        return tf.distribute.get_strategy()
    return tf.distribute.MirroredStrategy([f"CPU:{n}" for n in range(options.replicas)])


def make_trainer(options, strategy):
    from tiny import tiny_encoder

    import keras_bert_zoo as kbz
    from keras_bert_zoo.training.trainer import Trainer

    keras.utils.set_random_seed(1)
    rates = dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob"), options.dropout)
    with strategy.scope():
        task = kbz.Pretraining(tiny_encoder(**rates))
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
        checkpoint_dir=pathlib.Path(options.folder) / "snapshots",
        save_steps=options.save_steps,
    )


def main():
    options = parse()
    if options.replicas > 1:
        cpu = tf.config.list_physical_devices("CPU")[0]
        devices = [tf.config.LogicalDeviceConfiguration()] * options.replicas
        tf.config.set_logical_device_configuration(cpu, devices)
    strategy = make_strategy(options)

    from keras_bert_zoo.datasets.pretraining import pretraining_dataset
    from keras_bert_zoo.training.strategies import worker_count_and_index

    trainer, texts = make_trainer(options, strategy), corpus()
    told = pathlib.Path(options.folder) / "progress.txt"

    class Tell(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if trainer.is_chief:
                with open(told, "a", encoding="utf-8") as file:
                    print(len(trainer.step_losses), file=file)
            time.sleep(options.pause)

    workers, worker = worker_count_and_index(strategy)
    trainer.fit(
        lambda step: pretraining_dataset(
            texts, 24, options.batch_size, start_step=step, workers=workers, worker=worker
        ),
        options.steps,
        callbacks=[Tell()],
        verbose=0,
        of_worker=True,
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


if __name__ == "__main__":
    main()
