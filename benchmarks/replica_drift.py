"""How far trainings that are the same but for rounding drift apart under AdamW.

    python benchmarks/replica_drift.py [--steps=20 --steps=200] [--rate=1e-3] [--optimizer=sgd]

One global batch of 32 rows, masked tokens and next sentences, without dropout, in five ways: on 1
replica at once; `reordered`, with its rows in reverse; as `parts`, 4 x 8 accumulated; on 2
`replicas` x 16, two logical CPUs under MirroredStrategy; on 2 `workers` x 16, two processes. Each
way has processes of its own. By what a way differs from the first after so many steps: `loss`, the
largest difference of a step's loss so far; `weights`, the norm of the difference of all weights
over their norm; `weight`, the same of the weight in which it is largest, by its name. AdamW divides
a gradient by its own size, so that what is rounding in a tiny one can be much of a step. The last
line is JSON.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import numpy as np
from absl import app, flags

FLAGS = flags.FLAGS
ROWS, LENGTH, MASKED, VOCABULARY = 32, 32, 5, 1000
WAYS = ("one", "reordered", "parts", "replicas", "workers")
LAUNCHER = pathlib.Path(__file__).resolve().parent.parent / "examples" / "launch_local_workers.py"
flags.DEFINE_multi_integer("steps", [20, 200], "After how many to compare.", lower_bound=1)
flags.DEFINE_float("rate", 1e-3, "Rate of the optimizer, constant.")
flags.DEFINE_enum("optimizer", "adamw", ["adamw", "sgd"], "What trains.")
flags.DEFINE_list("job", None, "Way and file of a process; for own use.")


def batches(reverse):
    """Other rows in each step; they are of Zipf's law, so that there is something to learn."""
    import tensorflow as tf

    def rows(step):
        rng = np.random.default_rng(int(step))
        ids = np.minimum(rng.zipf(1.3, (ROWS, LENGTH)) + 4, VOCABULARY - 1).astype("int32")
        positions = np.tile(rng.permutation(np.arange(1, LENGTH))[:MASKED], (ROWS, 1))
        masked = np.take_along_axis(ids, positions, axis=1)
        np.put_along_axis(ids, positions, 4, axis=1)
        weights = np.arange(MASKED) < rng.integers(0, MASKED + 1, ROWS)[:, None]
        columns = [
            ids, np.zeros_like(ids), np.ones_like(ids), positions.astype("int32"), masked,
            weights.astype("float32"), (ids[:, 0] % 2), np.ones(ROWS, "float32"),
        ]  # fmt: skip
        return [column[::-1] if reverse else column for column in columns]

    def named(step):
        names = ("token_ids", "segment_ids", "padding_mask", "masked_positions", "masked_ids",
                 "masked_weights", "next_sentence", "next_sentence_weights")  # fmt: skip
        types = [tf.float32 if "weights" in name else tf.int32 for name in names]
        columns = dict(zip(names, tf.numpy_function(rows, [step], types), strict=True))
        for name, column in columns.items():
            wide = {"masked": MASKED, "next": None}.get(name.partition("_")[0], LENGTH)
            column.set_shape([ROWS] if wide is None else [ROWS, wide])
        return {n: columns[n] for n in names[:4]}, {n: columns[n] for n in names[4:]}

    return lambda step: tf.data.Dataset.range(step, 10**9).map(named)


def train(way, path):
    """Trains in one way, and writes the losses and the weights after each number of steps."""
    import keras
    import tensorflow as tf

    import keras_bert_zoo as kbz
    from keras_bert_zoo.training.strategies import make_strategy
    from keras_bert_zoo.training.trainer import Trainer

    if way == "replicas":
        cpu = tf.config.list_physical_devices("CPU")[0]
        tf.config.set_logical_device_configuration(
            cpu, [tf.config.LogicalDeviceConfiguration()] * 2
        )
    strategy = make_strategy({"replicas": "mirrored", "workers": "multi_worker"}.get(way, "one"))
    keras.utils.set_random_seed(0)
    config = kbz.EncoderConfig(
        vocab_size=VOCABULARY,
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=512,
        max_position_embeddings=LENGTH,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    with strategy.scope():
        task = kbz.Pretraining(kbz.BertEncoder(config))
    made = kbz.AdamW if FLAGS.optimizer == "adamw" else keras.optimizers.SGD
    trainer = Trainer(
        task,
        made(FLAGS.rate),
        strategy,
        clip_norm=1.0,
        accumulation_steps=4 if way == "parts" else 1,
    )
    kept = {}

    class Keep(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if batch + 1 in FLAGS.steps:
                for weight in task.trainable_weights:
                    kept[f"{batch + 1} {weight.path}"] = keras.ops.convert_to_numpy(weight)

    trainer.fit(batches(way == "reordered"), max(FLAGS.steps), callbacks=[Keep()], verbose=0)
    if trainer.is_chief:
        np.savez(path, losses=trainer.step_losses, **kept)


def difference(found, expected, steps):
    losses = [np.float64(each["losses"][:steps]) for each in (found, expected)]
    names = [name for name in expected.files if name.startswith(f"{steps} ")]
    squares = {}
    for name in names:
        one, other = np.float64(expected[name]), np.float64(found[name])
        squares[name] = np.square(other - one).sum(), np.square(one).sum()
    total, norm = (sum(pair[place] for pair in squares.values()) for place in (0, 1))
    ratios = {name: np.sqrt(d / n) if n else 0.0 for name, (d, n) in squares.items()}
    worst = max(ratios, key=ratios.get)
    return {
        "loss": float(np.abs(losses[0] - losses[1]).max()),
        "weights": float(np.sqrt(total / norm)),
        "weight": float(ratios[worst]),
        "name": worst.partition(" ")[2],
    }


def main(_):
    if FLAGS.job:
        train(*FLAGS.job)
        return
    report = {}
    with tempfile.TemporaryDirectory() as folder:
        files = {}
        for way in WAYS:
            path = f"{folder}/{way}.npz"
            command = [sys.executable, *sys.argv, f"--job={way},{path}"]
            if way == "workers":
                command = [sys.executable, str(LAUNCHER), "--max_restarts=0", "--", *command]
            done = subprocess.run(
                command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
            if done.returncode:
                raise SystemExit(f"{way} failed:\n{done.stdout}\n{done.stderr}")
            files[way] = np.load(path)
            if way == "one":
                continue
            report[way] = {}
            for steps in FLAGS.steps:
                found = difference(files[way], files["one"], steps)
                report[way][str(steps)] = found
                print(
                    f"{way}, {steps} steps: loss {found['loss']:.1e}, weights "
                    f"{found['weights']:.1e}, {found['name']} {found['weight']:.1e}"
                )
        first, last = files["one"]["losses"][[0, -1]]
    print(json.dumps({"losses": [float(first), float(last)], "differences": report}))


if __name__ == "__main__":
    app.run(main)
