"""A step of masked-language-model training beside `transformers`, KerasHub, TF Model Garden.

    python benchmarks/train_step.py [--turns=4] [--steps=3] [--models=bert_mini --models=bert_small]

Random weights, 32 rows of 128 tokens without padding, of which 20 are masked, AdamW, dropout 0.1;
float32, and bfloat16 where the library has it (autocast in torch, `mixed_bfloat16` in Keras). All
but `transformers`, whose recipe computes it for all, compute the V-wide product for the masked
tokens only. Each is a process of its own, and they take turns; a time is the median of the turns,
after a first one that is not counted. Memory is the peak of the process over what it had before the
model was made. `trainer_overhead` is the time of a step in `Trainer` over one in `fit`, less 1;
`two_devices` that of two logical CPUs under MirroredStrategy over one device, both of the first
model. The last line is JSON; a ratio is the peer's time over ours. The Garden's needs
`tf-models-official` and `tf_keras`.
"""

import json
import os
import pathlib
import statistics
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
from absl import app, flags
from alternating import Side, installed, serve

FLAGS = flags.FLAGS
ROWS, LENGTH, MASKED, VOCABULARY = 32, 128, 20, 30522
SIZES = {"bert_tiny": (2, 128, 2), "bert_mini": (4, 256, 4), "bert_small": (4, 512, 8)}
PRECISIONS = {"float32": "float32", "bfloat16": "mixed_bfloat16"}
flags.DEFINE_multi_enum("models", ["bert_mini", "bert_small"], list(SIZES), "Sizes to measure.")
flags.DEFINE_multi_enum("precisions", list(PRECISIONS), list(PRECISIONS), "Of the arithmetic.")
flags.DEFINE_integer("turns", 4, "Turns of each that count.", lower_bound=1)
flags.DEFINE_integer("steps", 3, "Steps of a turn.", lower_bound=1)
flags.DEFINE_list("job", None, "Side, model and precision of a process; for own use.")


def batch():
    rng = np.random.default_rng(0)
    ids = rng.integers(1000, VOCABULARY, (ROWS, LENGTH)).astype("int32")
    order = np.argsort(rng.random((ROWS, LENGTH - 2)), axis=1) + 1
    positions = np.sort(order[:, :MASKED], axis=1).astype("int32")
    masked = np.take_along_axis(ids, positions, axis=1)
    np.put_along_axis(ids, positions, 103, axis=1)
    return ids, positions, masked


def repeated(*batch):
    """One batch again and again, without tf.data's tuning, for whose thread the end would wait."""
    import tensorflow as tf

    options = tf.data.Options()
    options.autotune.enabled = False
    return tf.data.Dataset.from_tensors(batch).cache().repeat().with_options(options)


def our_task(model, precision):
    import keras_bert_zoo as kbz

    blocks, width, heads = SIZES[model]
    config = kbz.EncoderConfig(
        vocab_size=VOCABULARY,
        hidden_size=width,
        num_hidden_layers=blocks,
        num_attention_heads=heads,
        intermediate_size=4 * width,
        max_position_embeddings=512,
    )
    encoder = kbz.BertEncoder(config, dtype=PRECISIONS[precision])
    return kbz.Pretraining(encoder, next_sentence=False)


def our_rows():

    ids, positions, masked = batch()
    x = {
        "token_ids": ids,
        "segment_ids": np.zeros_like(ids),
        "padding_mask": np.ones_like(ids),
        "masked_positions": positions,
    }
    y = {"masked_ids": masked, "masked_weights": np.ones(masked.shape, "float32")}
    return repeated(x, y)


def ours(model, precision):
    import keras_bert_zoo as kbz

    task = our_task(model, precision)
    task.compile(kbz.adamw(1e-4, 1000), clip_norm=1.0)
    rows = our_rows()
    return lambda steps: task.fit(rows, steps_per_epoch=steps, verbose=0)


def trainer(model, precision, replicas=1):
    import tensorflow as tf

    import keras_bert_zoo as kbz
    from keras_bert_zoo.training.strategies import make_strategy
    from keras_bert_zoo.training.trainer import Trainer

    if replicas > 1:
        cpu = tf.config.list_physical_devices("CPU")[0]
        devices = [tf.config.LogicalDeviceConfiguration()] * replicas
        tf.config.set_logical_device_configuration(cpu, devices)
    strategy = make_strategy("one" if replicas == 1 else "mirrored")
    with strategy.scope():
        task = our_task(model, precision)
    loop = Trainer(task, kbz.adamw(1e-4, 1000), strategy, clip_norm=1.0)
    rows = our_rows()
    return lambda steps: loop.fit(lambda _: rows, steps, verbose=0)


def two_devices(model, precision):
    return trainer(model, precision, replicas=2)


def transformers(model, precision):
    import contextlib

    import torch
    from transformers import BertConfig, BertForMaskedLM

    blocks, width, heads = SIZES[model]
    network = BertForMaskedLM(
        BertConfig(
            hidden_size=width,
            num_hidden_layers=blocks,
            num_attention_heads=heads,
            intermediate_size=4 * width,
        )
    ).train()
    optimizer = torch.optim.AdamW(network.parameters(), 1e-4, weight_decay=0.01)
    ids, positions, masked = batch()
    labels = np.full(ids.shape, -100)
    np.put_along_axis(labels, positions, masked, axis=1)
    ids, labels = torch.tensor(ids).long(), torch.tensor(labels).long()

    def half():
        if precision == "float32":
            return contextlib.nullcontext()
        return torch.autocast("cpu", dtype=torch.bfloat16)

    def train(steps):
        for _ in range(steps):
            with half():
                loss = network(input_ids=ids, labels=labels).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()

    return train


def keras_hub(model, precision):
    import keras
    import keras_hub

    blocks, width, heads = SIZES[model]
    backbone = keras_hub.models.BertBackbone(
        vocabulary_size=VOCABULARY,
        num_layers=blocks,
        num_heads=heads,
        hidden_dim=width,
        intermediate_dim=4 * width,
        max_sequence_length=512,
        dtype=PRECISIONS[precision],
    )
    task = keras_hub.models.BertMaskedLM(backbone, preprocessor=None)
    task.compile(
        keras.optimizers.AdamW(1e-4, weight_decay=0.01, global_clipnorm=1.0),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    ids, positions, masked = batch()
    x = {
        "token_ids": ids,
        "segment_ids": np.zeros_like(ids),
        "padding_mask": np.ones_like(ids),
        "mask_positions": positions,
    }
    weights = np.ones(masked.shape, "float32")
    rows = repeated(x, masked, weights)
    return lambda steps: task.fit(rows, steps_per_epoch=steps, verbose=0)


def garden(model, precision):
    os.environ["TF_USE_LEGACY_KERAS"] = "1"
    import tf_keras
    from official.nlp.modeling import models, networks

    tf_keras.mixed_precision.set_global_policy(PRECISIONS[precision])
    blocks, width, heads = SIZES[model]
    encoder = networks.BertEncoderV2(
        vocab_size=VOCABULARY,
        hidden_size=width,
        num_layers=blocks,
        num_attention_heads=heads,
        inner_dim=4 * width,
        max_sequence_length=512,
    )
    names = ("input_word_ids", "input_type_ids", "input_mask", "masked_lm_positions")
    inputs = {name: tf_keras.Input((None,), dtype="int32", name=name) for name in names}
    logits = models.BertPretrainerV2(encoder)(inputs)["mlm_logits"]
    task = tf_keras.Model(inputs, logits)
    task.compile(
        tf_keras.optimizers.AdamW(1e-4, weight_decay=0.01, global_clipnorm=1.0),
        tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    ids, positions, masked = batch()
    arrays = (ids, np.zeros_like(ids), np.ones_like(ids), positions)
    x = dict(zip(names, arrays, strict=True))
    rows = repeated(x, masked)
    return lambda steps: task.fit(rows, steps_per_epoch=steps, verbose=0)


SIDES = {
    side.__name__: side for side in (ours, transformers, keras_hub, garden, trainer, two_devices)
}


def megabytes(entry):
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith(entry):
            return int(line.split()[1]) / 1024
    return float("nan")


def prepare():
    name, model, precision = FLAGS.job
    if name == "transformers":
        import transformers as _
    elif name == "keras_hub":
        import keras_hub as _
    elif name == "garden":
        os.environ["TF_USE_LEGACY_KERAS"] = "1"
        import official.nlp.modeling as _
    else:
        import keras_bert_zoo as _  # noqa: F401
    before = megabytes("VmRSS")
    train = SIDES[name](model, precision)
    train(FLAGS.steps)
    return train, before


def work(prepared, steps):
    train, before = prepared
    start = time.perf_counter()
    train(steps)
    seconds = time.perf_counter() - start
    return {"ms": 1000 * seconds / steps, "peak_mb": megabytes("VmHWM") - before}


def compare(names, model, precision, steps):
    """The median time of a step and the peak memory, by side."""
    made = [Side(name, f"--job={name},{model},{precision}") for name in names]
    sides = installed(made)
    for _ in range(FLAGS.turns):
        for side in sides:
            side.turn(steps)
    found = {}
    for side in sides:
        side.close()
        ms = [turn["ms"] for turn in side.turns]
        found[side.name] = (statistics.median(ms), side.turns[-1]["peak_mb"])
        told = ", ".join(f"{one:.0f}" for one in ms)
        print(f"{model}, {precision}, {side.name}: {told} ms, {found[side.name][1]:.0f} MB")
    return found


def main(_):
    if FLAGS.job:
        serve(prepare, work)
        return
    report = {}
    for model in FLAGS.models:
        report[model] = {}
        for precision in FLAGS.precisions:
            sides = ("ours", "keras_hub", "transformers", "garden")
            found = compare(sides, model, precision, FLAGS.steps)
            ms, peak = found.pop("ours")
            entry = {"ours_ms": round(ms, 1), "peak_mb": round(peak)}
            for name, (other, memory) in found.items():
                entry[f"{name}_ratio"] = round(other / ms, 2)
                entry[f"{name}_peak_mb"] = round(memory)
            report[model][precision] = entry
    # More steps a turn: the iterators of two devices wait for their threads at its end.
    sides = ("ours", "trainer", "two_devices")
    found = compare(sides, FLAGS.models[0], FLAGS.precisions[0], 5 * FLAGS.steps)
    fit, loop, two = (found[name][0] for name in ("ours", "trainer", "two_devices"))
    report["trainer_overhead"] = round(loop / fit - 1, 4)
    report["two_devices"] = round(two / loop, 3)
    print(json.dumps(report))


if __name__ == "__main__":
    app.run(main)
