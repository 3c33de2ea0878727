"""One epoch of fine-tuning on MRPC: real tokens a second of ours, `transformers` and KerasHub.

    python benchmarks/finetune_epoch.py --folder=MINILM --data_dir=glue [--slices=6] [--share=1.0]

All start from the same Hugging Face folder and train on the same pairs, in the same batches' size,
with AdamW, a linear schedule and clipped gradients, float32. Each has a process of its own. The
epoch is cut into slices, and the three take turns, slice by slice, so that what else the machine
does falls on all. Reading texts into ids is part of the time; the first steps, in which graphs are
traced, are not. Each pads as its users do: ours to the longest of a batch of like lengths,
`transformers` to the longest of a random batch, KerasHub all to `--max_seq_length`. Real tokens are
those that are not padding. The last line is JSON.
"""

import itertools
import json
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
from absl import app, flags
from alternating import Side, installed, serve

SIDES = ("ours", "transformers", "keras_hub")
FLAGS = flags.FLAGS
flags.DEFINE_string("folder", None, "A Hugging Face folder of a BERT.", required=True)
flags.DEFINE_string("data_dir", None, "GLUE's folder, or the one of MRPC.", required=True)
flags.DEFINE_integer("batch_size", 16, "Pairs a step.", lower_bound=1)
flags.DEFINE_integer("max_seq_length", 128, "Tokens a pair is cut to.", lower_bound=8)
flags.DEFINE_float("learning_rate", 5e-5, "Peak of the learning rate.", lower_bound=0.0)
flags.DEFINE_integer("slices", 6, "Turns of each in an epoch.", lower_bound=1)
flags.DEFINE_float("share", 1.0, "Share of the epoch to run, from its start.", 0.0, 1.0)
flags.DEFINE_list("sides", list(SIDES), "Which to compare.")
flags.DEFINE_enum("side", None, SIDES, "What a process of its own is to train; for own use.")

WARM_UP = 4  # Batches before the clock starts.


def read_pairs():
    """The pairs in a random order, and their labels, 0 or 1."""
    from keras_bert_zoo.datasets.labelled_texts import read_glue

    examples = list(read_glue(FLAGS.data_dir, "MRPC", "train"))
    order = np.random.default_rng(0).permutation(len(examples))
    rows = [examples[number] for number in order]
    return (
        [e.text_a for e in rows],
        [e.text_b for e in rows],
        [int(e.label == "equivalent") for e in rows],
    )


def ours(steps):
    import keras_bert_zoo as kbz
    from keras_bert_zoo.datasets.pipeline import encode

    task = kbz.TextClassifier.from_preset(
        FLAGS.folder, labels=["0", "1"], sequence_length=FLAGS.max_seq_length
    )
    optimizer = kbz.adamw(FLAGS.learning_rate, total_steps=steps, warmup_steps=steps // 10)
    task.compile(optimizer, clip_norm=1.0)

    def train(first, second, labels):
        encoded = encode(task.read_texts, (first, second), np.array(labels, np.int32))
        losses = task.fit(encoded.training_batches(FLAGS.batch_size), verbose=0).history["loss"]

        def count():
            real = int(encoded.lengths.sum())
            return real, round(real / (1 - encoded.padding_share(FLAGS.batch_size)))

        return losses[0], count

    return train


def transformers(steps):
    import torch
    from transformers import (
        AutoModelForSequenceClassification,
        AutoTokenizer,
        DataCollatorWithPadding,
        get_linear_schedule_with_warmup,
    )
    from transformers.utils import logging

    logging.disable_progress_bar()
    logging.set_verbosity_error()
    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(FLAGS.folder)
    model = AutoModelForSequenceClassification.from_pretrained(FLAGS.folder, num_labels=2).train()
    optimizer = torch.optim.AdamW(model.parameters(), FLAGS.learning_rate, weight_decay=0.01)
    schedule = get_linear_schedule_with_warmup(optimizer, steps // 10, steps)
    collate = DataCollatorWithPadding(tokenizer)

    def train(first, second, labels):
        ids = tokenizer(first, second, truncation=True, max_length=FLAGS.max_seq_length)
        rows = [
            {name: column[n] for name, column in ids.items()} | {"labels": label}
            for n, label in enumerate(labels)
        ]
        losses, masks = [], []
        for batch in torch.utils.data.DataLoader(rows, FLAGS.batch_size, collate_fn=collate):
            loss = model(**batch).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            losses.append(loss.item())
            masks.append(batch["attention_mask"])

        def count():
            return int(sum(mask.sum() for mask in masks)), sum(mask.numel() for mask in masks)

        return float(np.mean(losses)), count

    return train


def keras_hub(steps):
    import keras
    import keras_hub

    import keras_bert_zoo as kbz

    keras.utils.set_random_seed(0)
    preprocessor = keras_hub.models.BertTextClassifierPreprocessor.from_preset(
        FLAGS.folder, sequence_length=FLAGS.max_seq_length
    )
    task = keras_hub.models.BertTextClassifier(
        keras_hub.models.BertBackbone.from_preset(FLAGS.folder), 2, preprocessor, dropout=0.1
    )
    schedule = kbz.WarmupLinear(FLAGS.learning_rate, steps, steps // 10)
    task.compile(
        keras.optimizers.AdamW(schedule, weight_decay=0.01, global_clipnorm=1.0),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )

    def train(first, second, labels):
        columns = (np.array(first), np.array(second))
        told = task.fit(columns, np.array(labels), batch_size=FLAGS.batch_size, verbose=0)

        def count():
            mask = np.asarray(preprocessor(columns, labels)[0]["padding_mask"])
            return int(mask.sum()), mask.size

        return told.history["loss"][0], count

    return train


def prepare():
    """The function that trains, warmed up, and the slices of the rows."""
    rows = read_pairs()
    steps = -(-len(rows[0]) // FLAGS.batch_size) + WARM_UP
    train = {"ours": ours, "transformers": transformers, "keras_hub": keras_hub}[FLAGS.side](steps)
    train(*(column[-WARM_UP * FLAGS.batch_size :] for column in rows))
    # Whole batches, as a batch of another size costs a compilation where graphs are of fixed shape.
    bounds = np.linspace(0, len(rows[0]) * FLAGS.share, FLAGS.slices + 1).astype(int)
    bounds[:-1] -= bounds[:-1] % FLAGS.batch_size
    return train, [
        [column[begin:end] for column in rows] for begin, end in itertools.pairwise(bounds)
    ]


def work(prepared, number):
    train, slices = prepared
    start = time.perf_counter()
    loss, count = train(*slices[number])
    seconds = time.perf_counter() - start
    real, computed = count()
    return {"seconds": seconds, "real": real, "computed": computed, "loss": loss}


def summary(side):
    real, seconds = side.total("real"), side.total("seconds")
    return {
        "tokens_per_second": round(real / seconds, 1),
        "seconds": round(seconds, 1),
        "real_tokens": real,
        "padding_share": round(1 - real / side.total("computed"), 4),
        "loss": round(side.total("loss") / len(side.turns), 4),
    }


def main(_):
    if FLAGS.side:
        serve(prepare, work)
        return
    sides = installed([Side(name, f"--side={name}") for name in FLAGS.sides])
    for number in range(FLAGS.slices):
        for side in sides:
            turn = side.turn(number)
            print(f"slice {number + 1}, {side.name}: {turn['real'] / turn['seconds']:.0f} tokens/s")
    report = {}
    for side in sides:
        side.close()
        report[side.name] = summary(side)
    if "ours" in report and len(report) > 1:
        best = max(report[name]["tokens_per_second"] for name in report if name != "ours")
        report["ours_over_better_peer"] = round(report["ours"]["tokens_per_second"] / best, 2)
    print(json.dumps(report))


if __name__ == "__main__":
    app.run(main)
