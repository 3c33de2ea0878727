"""Pretrains a BERT on your own text, in phases, and goes on where it was killed.

    python examples/pretrain.py --input_files "texts/*.txt" --vocab_file vocab.txt \\
        --preset bert_mini --output_dir OUT --num_train_steps 10000

The recipe is BERT's (arXiv 1810.04805, A.2): 90% of the steps with rows of 128 tokens and the last
10% with 512, AdamW with a linear warm-up and decay, gradients clipped to 1, and masks drawn anew in
each pass. Text files have a sentence a line and a blank line between documents; `--text_format`
says otherwise. Every 50th document is held out, and measured after each `--eval_steps`. The same
command run again continues from the newest snapshot in `OUT/snapshots`.

In `OUT` are the model (`pretraining.keras`, `saved_model`), a model card (`README.md`),
`metrics.json` and a learning curve. The last line is JSON.
"""

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

import keras_bert_zoo as kbz
from keras_bert_zoo.datasets.corpus import PretrainingCorpus
from keras_bert_zoo.datasets.documents import read_documents
from keras_bert_zoo.datasets.pretraining import pretraining_dataset
from keras_bert_zoo.optimizers.schedules import SCHEDULES, make_schedule
from keras_bert_zoo.presets import PRESETS
from keras_bert_zoo.training.strategies import make_strategy
from keras_bert_zoo.training.trainer import Trainer

FLAGS = flags.FLAGS
flags.DEFINE_list("input_files", None, "Text files, or patterns of such.")
flags.DEFINE_enum("text_format", "sentences", ["sentences", "paragraphs"], "What a line is.")
flags.DEFINE_string("vocab_file", None, "WordPiece vocabulary.")
flags.DEFINE_bool("do_lower_case", True, "Whether to lower-case.")
flags.DEFINE_string("output_dir", None, "Folder of all that is written.")
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
flags.DEFINE_integer("save_steps", 1000, "Steps after which to write a snapshot.", lower_bound=1)
flags.DEFINE_integer("held_out_every", 50, "Which documents are held out.", lower_bound=2)
flags.DEFINE_integer("seed", 0, "The same seed gives the same numbers.")
flags.DEFINE_enum("strategy", "auto", ["auto", "one", "mirrored", "multi_worker", "tpu"], "Where.")
flags.DEFINE_enum("precision", "float32", ["float32", "mixed_bfloat16"], "Of the arithmetic.")
flags.DEFINE_bool("tensorboard", False, "Whether to write OUT/tensorboard.")
flags.DEFINE_bool("next_sentence", True, "Whether to predict next sentences.")
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


def masking():
    names = ("masking_rate", "mask_share", "random_share", "masking_unit", "static_masks",
             "data_noising", "next_sentence", "seed")  # fmt: skip
    return {name: FLAGS[name].value for name in names}


def rows_from(corpus, phases, step):
    """The batches of all phases from a step on."""
    dataset = None
    for number, (length, steps) in enumerate(phases):
        begin, step = min(step, steps), max(step - steps, 0)
        if begin == steps:
            continue
        settings = masking() | {"seed": FLAGS.seed + number}
        part = pretraining_dataset(
            corpus, length, FLAGS.train_batch_size, start_step=begin, **settings
        ).take(steps - begin)
        dataset = part if dataset is None else dataset.concatenate(part)
    return dataset.prefetch(tf.data.AUTOTUNE)


def read_corpora(tokenizer):
    """The text to train on, and what is held out."""
    documents = read_documents(FLAGS.input_files, FLAGS.text_format)
    held_out = documents[:: FLAGS.held_out_every]
    train = [d for n, d in enumerate(documents) if n % FLAGS.held_out_every]
    if not train or len(held_out) < 2:
        raise app.UsageError(
            f"{len(documents)} documents are too few for --held_out_every={FLAGS.held_out_every}."
        )
    return [PretrainingCorpus.from_documents(part, tokenizer) for part in (train, held_out)]


def encoder_config(tokenizer, longest):
    if FLAGS.config_file:
        config = kbz.EncoderConfig.from_file(FLAGS.config_file)
    else:
        config = PRESETS[FLAGS.preset].config
    config = dataclasses.replace(config, vocab_size=tokenizer.vocabulary_size)
    if longest > config.max_position_embeddings:
        raise app.UsageError(
            f"--phases has rows of {longest} tokens, and the encoder "
            f"{config.max_position_embeddings} positions."
        )
    return config


def draw_curve(path, curve):
    try:
        import matplotlib
    except ImportError:
        logging.warning("No picture: pip install 'keras-bert-zoo[examples]' brings matplotlib.")
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axis = pyplot.subplots()
    axis.plot([row["step"] for row in curve], [row["masked_lm_loss"] for row in curve], "o-")
    axis.set(xlabel="step", ylabel="held-out masked-word loss")
    figure.savefig(path)
    pyplot.close(figure)


def write_card(path, report):
    lines = [
        "# A BERT pretrained with keras_bert_zoo",
        "",
        f"- Made on {time.strftime('%Y-%m-%d')} with TensorFlow {tf.__version__} and Keras "
        f"{keras.__version__}.",
        f"- Text: {', '.join(FLAGS.input_files)}; {report['documents']} documents, "
        f"{report['tokens']} tokens; every {FLAGS.held_out_every}th document is held out.",
        f"- Encoder: {FLAGS.config_file or FLAGS.preset}, {report['parameters']} parameters.",
        f"- Training: {report['steps']} steps of {FLAGS.train_batch_size} rows, "
        f"{' then '.join(f'{steps} with {length} tokens' for length, steps in report['phases'])}; "
        f"highest rate {FLAGS.learning_rate}; seed {FLAGS.seed}.",
        f"- Masks: {json.dumps(masking())}.",
        "- On held-out text: "
        + ", ".join(f"{name} {report['held_out'][name]:.4f}" for name in report["held_out"])
        + ".",
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main(_):
    logging.set_verbosity(logging.WARNING)
    strategy = make_strategy(FLAGS.strategy)
    started = time.monotonic()
    output = pathlib.Path(FLAGS.output_dir)
    output.mkdir(parents=True, exist_ok=True)
    phases = parse_phases(FLAGS.num_train_steps)
    tokenizer = kbz.WordPieceTokenizer(FLAGS.vocab_file, lowercase=FLAGS.do_lower_case)
    longest = max(length for length, _ in phases)
    config = encoder_config(tokenizer, longest)
    corpus, held_out = read_corpora(tokenizer)
    keras.utils.set_random_seed(FLAGS.seed)
    warmup = FLAGS.num_warmup_steps
    with strategy.scope():
        task = kbz.Pretraining(
            kbz.BertEncoder(config, dtype=FLAGS.precision),
            kbz.TextPreprocessor(tokenizer, longest),
            next_sentence=FLAGS.next_sentence,
            seed=FLAGS.seed,
        )
        rate = make_schedule(
            FLAGS.schedule,
            FLAGS.learning_rate,
            FLAGS.num_train_steps,
            FLAGS.num_train_steps // 100 if warmup is None else warmup,
        )
        optimizer = {"adamw": kbz.AdamW, "lamb": kbz.Lamb}[FLAGS.optimizer](rate)
    trainer = Trainer(
        task,
        optimizer,
        strategy,
        clip_norm=1.0,
        accumulation_steps=FLAGS.accumulation_steps,
        steps_per_call=FLAGS.steps_per_call,
        checkpoint_dir=output / "snapshots",
        save_steps=FLAGS.save_steps,
        settings=masking() | {"phases": phases, "batch_size": FLAGS.train_batch_size},
    )
    measured = pretraining_dataset(
        held_out, phases[0][0], 128, epochs=1, shuffle=False,
        next_sentence=FLAGS.next_sentence, seed=FLAGS.seed,
    )  # fmt: skip
    path, curve = output / "curve.json", []

    def measure():
        scores = trainer.stepper.evaluate(measured)
        # What stands in the file is of before a restart.
        before = json.loads(path.read_text("utf-8")) if path.exists() else []
        step = len(trainer.step_losses)
        curve[:] = [row for row in before if row["step"] < step] + [{"step": step} | scores]
        if trainer.is_chief:
            path.write_text(json.dumps(curve), encoding="utf-8")
            told = ", ".join(f"{name} {value:.4f}" for name, value in scores.items())
            print(f"\nstep {step}, held out: {told}", flush=True)
        return scores

    callbacks = [keras.callbacks.TensorBoard(output / "tensorboard")] if FLAGS.tensorboard else []
    trainer.fit(
        lambda step: rows_from(corpus, phases, step),
        FLAGS.num_train_steps,
        FLAGS.eval_steps,
        measure,
        callbacks,
    )
    if not curve or curve[-1]["step"] != FLAGS.num_train_steps:
        measure()
    if not trainer.is_chief:
        return
    report = {
        "held_out": {name: value for name, value in curve[-1].items() if name != "step"},
        "steps": FLAGS.num_train_steps,
        "phases": phases,
        "documents": len(corpus.document_splits) - 1,
        "tokens": len(corpus.tokens),
        "parameters": int(sum(np.prod(weight.shape) for weight in task.trainable_weights)),
        "next_sentence": FLAGS.next_sentence,
        "seconds": round(time.monotonic() - started, 1),
    }
    task.save(output / "pretraining.keras")
    task.export(output / "saved_model")
    write_card(output / "README.md", report)
    draw_curve(output / "learning-curve.png", curve)
    whole = report | {"curve": curve, "flags": FLAGS.flag_values_dict()}
    (output / "metrics.json").write_text(json.dumps(whole, indent=2, default=str) + "\n", "utf-8")
    print(json.dumps(report))


if __name__ == "__main__":
    app.run(main)
