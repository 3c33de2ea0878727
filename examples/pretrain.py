"""Pretrains a BERT on your own text, in phases, and goes on where it was killed.

    python examples/pretrain.py --input_files "texts/*.txt" --vocab_file vocab.txt \\
        --preset bert_mini --output_dir OUT --num_train_steps 10000

The recipe is BERT's (arXiv 1810.04805, A.2): 90% of the steps with rows of 128 tokens and the last
10% with 512, AdamW with a linear warm-up and decay, gradients clipped to 1, and masks drawn anew in
each pass. Text files have a sentence a line and a blank line between documents; `--text_format`
says otherwise. Every 50th document is held out, and measured after each `--eval_steps`. The same
command run again continues from the newest snapshot in `OUT/snapshots`.

The texts are tokenized once, into `OUT/tokens` or `--cache_dir`, and read from there a part at a
time, so they may be larger than memory. With `--tokenize_only` nothing else is done: so one host
can do it for all that share the folder.

In `OUT` are the model (`pretraining.keras`, `saved_model` unless it is `--left_to_right`, and, with
the `hub` extra, `preset`, from which the fine-tuning scripts go on), a model card (`README.md`),
`metrics.json` and a learning curve. The last line is JSON.
"""

import contextlib
import dataclasses
import json
import math
import os
import pathlib
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import tensorflow as tf
from absl import app, flags, logging
from pretraining_report import draw_curve, write_card, write_preset

import keras_bert_zoo as kbz
from keras_bert_zoo.datasets.corpus_folder import CorpusFolder
from keras_bert_zoo.datasets.documents import describe_files, iterate_documents
from keras_bert_zoo.datasets.pretraining import pretraining_dataset
from keras_bert_zoo.optimizers.schedules import SCHEDULES, make_schedule
from keras_bert_zoo.presets import PRESETS
from keras_bert_zoo.training.strategies import best_precision, make_strategy, worker_count_and_index
from keras_bert_zoo.training.trainer import Trainer

FLAGS = flags.FLAGS
flags.DEFINE_list("input_files", None, "Text files, or patterns of such.")
flags.DEFINE_enum("text_format", "sentences", ["sentences", "paragraphs"], "What a line is.")
flags.DEFINE_string("vocab_file", None, "WordPiece vocabulary.")
flags.DEFINE_bool("do_lower_case", True, "Whether to lower-case.")
flags.DEFINE_string("output_dir", None, "Folder of all that is written.")
flags.DEFINE_string("cache_dir", None, "Folder of the tokenized texts; OUT/tokens by default.")
flags.DEFINE_bool("tokenize_only", False, "Whether to do no more than tokenize the texts.")
flags.DEFINE_enum("preset", "bert_mini", sorted(PRESETS), "Size of the encoder.")
flags.DEFINE_string("config_file", None, "A bert_config.json instead of --preset.")
flags.DEFINE_list("phases", ["128:0.9", "512:0.1"], "Tokens of a row : share of the steps.")
flags.DEFINE_integer("num_train_steps", 100_000, "Steps in all.", lower_bound=1)
flags.DEFINE_integer("train_batch_size", 256, "Rows of a step, on all devices.", lower_bound=1)
flags.DEFINE_integer("accumulation_steps", 1, "Parts that a device takes its rows in.")
flags.DEFINE_integer("steps_per_call", 1, "Steps between which Python is not asked.")
flags.DEFINE_float("learning_rate", 1e-4, "Peak of the learning rate.", lower_bound=0.0)
flags.DEFINE_enum("optimizer", "adamw", ["adamw", "lamb"], "LAMB is for very large batches.")
flags.DEFINE_enum("schedule", "linear", sorted(SCHEDULES), "What follows the warm-up.")
flags.DEFINE_integer("num_warmup_steps", None, "Steps of a rising rate; a hundredth by default.")
flags.DEFINE_integer("eval_steps", 1000, "Steps after which to measure.", lower_bound=1)
flags.DEFINE_integer("max_eval_steps", 100, "Most batches of 128 rows to measure on.", 1)
flags.DEFINE_integer("save_steps", 1000, "Steps after which to write a snapshot.", lower_bound=1)
flags.DEFINE_integer("held_out_every", 50, "Which documents are held out.", lower_bound=2)
flags.DEFINE_integer("seed", 0, "The same seed gives the same numbers.")
flags.DEFINE_enum("strategy", "auto", ["auto", "one", "mirrored", "multi_worker", "tpu"], "Where.")
flags.DEFINE_enum(
    "precision", "auto", ["auto", "float32", "mixed_bfloat16", "mixed_float16"],
    "Of the arithmetic; by default mixed_bfloat16 on GPUs and TPUs that have it.",
)  # fmt: skip
flags.DEFINE_bool("jit_compile", False, "Whether to use XLA, with rows of one length.")
flags.DEFINE_float("average_decay", None, "Of a running average of the weights, such as 0.999.")
flags.DEFINE_bool("tensorboard", False, "Whether to write OUT/tensorboard.")
flags.DEFINE_bool("next_sentence", True, "Whether to predict next sentences.")
flags.DEFINE_bool("left_to_right", False, "Whether tokens see those before them only; no NSP.")
flags.DEFINE_float("masking_rate", 0.15, "Share of the tokens that are predicted.", 0.01, 0.9)
flags.DEFINE_float("mask_share", 0.8, "Share of these that become [MASK].", 0.0, 1.0)
flags.DEFINE_float("random_share", 0.1, "Share of these that become random tokens.", 0.0, 1.0)
flags.DEFINE_enum("masking_unit", "token", ["token", "whole_word", "ngram"], "What is masked.")
flags.DEFINE_integer("static_masks", None, "Passes after which the same masks come again.")
flags.DEFINE_bool("data_noising", False, "Whether random tokens follow the text's frequencies.")
flags.mark_flags_as_required(["input_files", "vocab_file", "output_dir"])


def parse_phases(steps):
    """The phases as (tokens of a row, steps)."""
    try:
        parts = [part.split(":") for part in FLAGS.phases]
        phases = [(int(length), float(share)) for length, share in parts]
    except ValueError:
        phases = []
    if not phases or not math.isclose(sum(share for _, share in phases), 1.0):
        raise app.UsageError(
            "--phases are length:share, like 128:0.9,512:0.1, and the shares add up to 1. "
            f"Received: {','.join(FLAGS.phases)}"
        )
    ends = [round(steps * sum(share for _, share in phases[: n + 1])) for n in range(len(phases))]
    return [
        (length, end - begin)
        for (length, _), begin, end in zip(phases, [0, *ends[:-1]], ends, strict=True)
    ]


def row_settings():
    """What decides the rows, besides the texts."""
    names = ("masking_rate", "mask_share", "random_share", "masking_unit", "static_masks",
             "data_noising", "left_to_right", "seed")  # fmt: skip
    told = {name: FLAGS[name].value for name in names}
    return told | {"next_sentence": FLAGS.next_sentence and not FLAGS.left_to_right}


def rows_from(corpus, phases, step, workers, worker):
    """This worker's rows of the batches of all phases from a step on."""
    dataset = None
    for number, (length, steps) in enumerate(phases):
        begin, step = min(step, steps), max(step - steps, 0)
        if begin == steps:
            continue
        settings = row_settings() | {"seed": FLAGS.seed + number}
        part = pretraining_dataset(
            corpus, length, FLAGS.train_batch_size, start_step=begin, workers=workers,
            worker=worker, **settings,
        ).take(steps - begin)  # fmt: skip
        dataset = part if dataset is None else dataset.concatenate(part)
    return dataset.prefetch(tf.data.AUTOTUNE)


def read_corpora(tokenizer):
    """The text to train on, and what is held out."""
    folder = pathlib.Path(FLAGS.cache_dir or os.path.join(FLAGS.output_dir, "tokens"))
    made_of = {"files": describe_files(FLAGS.input_files), "format": FLAGS.text_format}

    def documents(held_out):
        found = enumerate(iterate_documents(FLAGS.input_files, FLAGS.text_format))
        return (d for n, d in found if (n % FLAGS.held_out_every == 0) == held_out)

    corpora = []
    for name, held_out in (("train", False), ("held_out", True)):
        told = made_of | {"held_out_every": FLAGS.held_out_every, "part": name}
        corpora.append(CorpusFolder.write(folder / name, documents(held_out), tokenizer, told))
        print(corpora[-1], flush=True)
    count = [corpus.document_count for corpus in corpora]
    if min(count) < 2:
        raise app.UsageError(
            f"--held_out_every={FLAGS.held_out_every} leaves {count[0]} documents to train on and "
            f"{count[1]} to measure on; each should have two, to draw next sentences from."
        )
    return corpora


def encoder_config(tokenizer, longest):
    if FLAGS.config_file:
        config = kbz.EncoderConfig.from_file(FLAGS.config_file)
    else:
        config = PRESETS[FLAGS.preset].config
    config = dataclasses.replace(
        config, vocab_size=tokenizer.vocabulary_size, is_decoder=FLAGS.left_to_right
    )
    if longest > config.max_position_embeddings:
        raise app.UsageError(
            f"--phases has rows of {longest} tokens, and the encoder "
            f"{config.max_position_embeddings} positions."
        )
    return config


def make_trainer(strategy, tokenizer, phases, corpus):
    """The model and what trains it."""
    keras.utils.set_random_seed(FLAGS.seed)
    longest = max(length for length, _ in phases)
    config = encoder_config(tokenizer, longest)
    precision = best_precision() if FLAGS.precision == "auto" else FLAGS.precision
    # XLA makes a program for each length, and needs to know it.
    fixed = longest if FLAGS.jit_compile else None
    if fixed and len(phases) > 1:
        raise app.UsageError("--jit_compile needs rows of one length: pass --phases=128:1.0")
    warmup = FLAGS.num_warmup_steps
    with strategy.scope():
        task = kbz.Pretraining(
            kbz.BertEncoder(config, sequence_length=fixed, dtype=precision),
            kbz.TextPreprocessor(tokenizer, longest),
            next_sentence=row_settings()["next_sentence"],
            seed=FLAGS.seed,
        )
        rate = make_schedule(
            FLAGS.schedule,
            FLAGS.learning_rate,
            FLAGS.num_train_steps,
            FLAGS.num_train_steps // 100 if warmup is None else warmup,
        )
        optimizer = {"adamw": kbz.AdamW, "lamb": kbz.Lamb}[FLAGS.optimizer](rate)
        if precision == "mixed_float16":
            optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
    told = {"phases": phases, "batch_size": FLAGS.train_batch_size, "corpus": corpus.checksum}
    return Trainer(
        task,
        optimizer,
        strategy,
        clip_norm=1.0,
        accumulation_steps=FLAGS.accumulation_steps,
        steps_per_call=FLAGS.steps_per_call,
        average_decay=FLAGS.average_decay,
        jit_compile=FLAGS.jit_compile,
        checkpoint_dir=pathlib.Path(FLAGS.output_dir, "snapshots"),
        save_steps=FLAGS.save_steps,
        settings=row_settings() | told,
    )


class Measure:
    """Measures on held-out text, and keeps what it found in a file, also over restarts."""

    def __init__(self, trainer, held_out, length, path):
        self._trainer = trainer
        self._rows = pretraining_dataset(
            held_out, length, 128, epochs=1, shuffle=False, seed=FLAGS.seed,
            next_sentence=row_settings()["next_sentence"], left_to_right=FLAGS.left_to_right,
        ).take(FLAGS.max_eval_steps)  # fmt: skip
        self._path = path
        self.curve = []

    def __call__(self):
        scores = self._trainer.stepper.evaluate(self._rows)
        # What stands in the file is of before a restart.
        before = json.loads(self._path.read_text("utf-8")) if self._path.exists() else []
        step = len(self._trainer.step_losses)
        self.curve = [row for row in before if row["step"] < step] + [{"step": step} | scores]
        if self._trainer.is_chief:
            self._path.write_text(json.dumps(self.curve), encoding="utf-8")
            told = ", ".join(f"{name} {value:.4f}" for name, value in scores.items())
            print(f"\nstep {step}, held out: {told}", flush=True)
        return scores


def main(_):
    logging.set_verbosity(logging.WARNING)
    strategy = make_strategy(FLAGS.strategy)
    started = time.monotonic()
    output = pathlib.Path(FLAGS.output_dir)
    output.mkdir(parents=True, exist_ok=True)
    phases = parse_phases(FLAGS.num_train_steps)
    tokenizer = kbz.WordPieceTokenizer(FLAGS.vocab_file, lowercase=FLAGS.do_lower_case)
    corpus, held_out = read_corpora(tokenizer)
    if FLAGS.tokenize_only:
        print(json.dumps({"documents": corpus.document_count, "tokens": corpus.token_count}))
        return
    trainer = make_trainer(strategy, tokenizer, phases, corpus)
    task = trainer.task
    measure = Measure(trainer, held_out, phases[0][0], output / "curve.json")
    callbacks = [keras.callbacks.TensorBoard(output / "tensorboard")] if FLAGS.tensorboard else []
    workers, worker = worker_count_and_index(strategy)
    trainer.fit(
        lambda step: rows_from(corpus, phases, step, workers, worker),
        FLAGS.num_train_steps,
        FLAGS.eval_steps,
        measure,
        callbacks,
        of_worker=True,
    )
    averaged = contextlib.nullcontext if FLAGS.average_decay is None else trainer.averaged
    with averaged():
        if not measure.curve:  # It was done before.
            measure()
        if not trainer.is_chief:
            return
        task.save(output / "pretraining.keras")
        if not FLAGS.left_to_right:  # It sees nothing after a [MASK], so it fills none.
            task.export(output / "saved_model")
        write_preset(output / "preset", task)
    report = {
        "held_out": {name: value for name, value in measure.curve[-1].items() if name != "step"},
        "steps": FLAGS.num_train_steps,
        "phases": phases,
        "documents": corpus.document_count,
        "tokens": corpus.token_count,
        "parameters": int(sum(np.prod(weight.shape) for weight in task.trainable_weights)),
        "next_sentence": task.next_sentence,
        "precision": task.encoder.token_embedding.dtype_policy.name,
        "seconds": round(time.monotonic() - started, 1),
    }
    write_card(output / "README.md", report, row_settings())
    draw_curve(output / "learning-curve.png", measure.curve)
    whole = report | {"curve": measure.curve, "flags": FLAGS.flag_values_dict()}
    (output / "metrics.json").write_text(json.dumps(whole, indent=2, default=str) + "\n", "utf-8")
    print(json.dumps(report))


if __name__ == "__main__":
    app.run(main)
