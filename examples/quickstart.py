"""From plain text to a served classifier, in one run and without a download.

    python examples/quickstart.py

Learns a vocabulary, pretrains a small BERT on masked words and next sentences, fine-tunes it to say
which library a docstring comes from, once from the pretrained weights and once from random ones,
and exports a SavedModel that answers strings. The corpus is the docstrings of the Python packages
that come with this one; with --corpus_dir it is your own text. All that is told is measured on
files held out from training. The last line printed is JSON.
"""

import time

STARTED = time.monotonic()  # the time that importing TensorFlow takes is part of the run's

import dataclasses
import json
import os
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import quickstart_corpus as corpora
import quickstart_report as report
import quickstart_training as training
import tensorflow as tf
from absl import app, flags, logging

import keras_bert_zoo as kbz
from keras_bert_zoo.presets import PRESETS
from keras_bert_zoo.text.vocabulary import learn_vocabulary, write_vocabulary

FLAGS = flags.FLAGS

flags.DEFINE_string("output_dir", "saved_models/quickstart", "Folder that all files go to.")
flags.DEFINE_string(
    "corpus_dir", None, "Folder with a folder for each label, and in these text files (*.txt): one "
    "sentence a line, a blank line between documents. Default: the installed docstrings."
)  # fmt: skip
flags.DEFINE_enum(
    "preset", None, list(PRESETS), "Architecture. Default: 2 layers of width 128, made to be fast."
)
flags.DEFINE_integer("seed", 0, "The same seed gives the same numbers.")
flags.DEFINE_integer("vocabulary_size", 8000, "Tokens to learn.", lower_bound=100)
flags.DEFINE_integer("sequence_length", 64, "Tokens of a row.", lower_bound=8)
flags.DEFINE_integer("steps", 4000, "Steps of pretraining; 0 for none.", lower_bound=0)
flags.DEFINE_integer("batch_size", 32, "Rows of a step of pretraining.", lower_bound=1)
flags.DEFINE_float("learning_rate", 2e-3, "Highest rate in pretraining.", lower_bound=0.0)
flags.DEFINE_float("masking_rate", 0.15, "Share of the tokens masked in pretraining.", 0.01, 0.9)
flags.DEFINE_integer("held_out_rows", 4096, "Most rows to measure pretraining on.", lower_bound=2)
flags.DEFINE_integer("labels_per_class", 20, "Labelled examples of a class.", lower_bound=1)
flags.DEFINE_integer("draws", 3, "How often labelled examples are drawn.", lower_bound=1)
flags.DEFINE_integer("finetune_epochs", 15, "Passes over the labelled examples.", lower_bound=1)
flags.DEFINE_integer("finetune_batch_size", 16, "Examples of a step.", lower_bound=1)
flags.DEFINE_float("finetune_learning_rate", 1e-3, "Highest rate.", lower_bound=0.0)


def encoder_config(vocabulary_size: int) -> kbz.EncoderConfig:
    """The encoder's architecture; it learns for minutes, so pretraining takes no dropout."""
    if FLAGS.preset:
        config = PRESETS[FLAGS.preset].config
        if FLAGS.sequence_length > config.max_position_embeddings:
            raise ValueError(
                f"--sequence_length={FLAGS.sequence_length}, but {FLAGS.preset} has "
                f"{config.max_position_embeddings} positions."
            )
        return dataclasses.replace(config, vocab_size=vocabulary_size)
    return kbz.EncoderConfig(
        vocab_size=vocabulary_size,
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=512,
        max_position_embeddings=FLAGS.sequence_length,
        initializer_range=0.06,  # BERT's 0.02 is for widths from 768: here attention starts late
    )


def prepare(output: Path):
    """Makes the output folder, the corpus and the vocabulary.

    Raises:
        ValueError: what the user asked for cannot be done.
    """
    try:
        output.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=output).close()
    except OSError as error:
        raise ValueError(f"--output_dir: cannot write to {str(output)!r}: {error}") from error
    if FLAGS.corpus_dir is None:
        corpus = corpora.docstring_corpus(FLAGS.labels_per_class)
    else:
        corpus = corpora.folder_corpus(FLAGS.corpus_dir, FLAGS.labels_per_class)
    print(corpus)
    lines = (line for document in corpus.train for line in document.lines)
    vocabulary = learn_vocabulary(lines, FLAGS.vocabulary_size, progress=True)
    write_vocabulary(output / "vocab.txt", vocabulary)
    return corpus, vocabulary, encoder_config(len(vocabulary))


def main(argv):
    if len(argv) > 1:
        raise app.UsageError(f"Unknown arguments: {argv[1:]}")
    logging.set_verbosity(logging.WARNING)
    output = Path(FLAGS.output_dir)
    keras.utils.set_random_seed(FLAGS.seed)
    tf.config.experimental.enable_op_determinism()
    try:
        corpus, vocabulary, config = prepare(output)
    except ValueError as error:
        sys.exit(f"quickstart: {error}")
    tokenizer = kbz.WordPieceTokenizer(vocabulary)
    preprocessor = kbz.TextPreprocessor(tokenizer, FLAGS.sequence_length)

    task, curve, pretrained = training.pretrain(
        config, preprocessor, corpus, FLAGS.steps, FLAGS.batch_size, FLAGS.learning_rate,
        FLAGS.masking_rate, FLAGS.held_out_rows, FLAGS.seed,
    )  # fmt: skip
    task.save(output / "pretraining.keras")
    classifier, accuracies = training.compare_starts(
        task.encoder, preprocessor, corpus, FLAGS.labels_per_class, FLAGS.draws,
        FLAGS.finetune_epochs, FLAGS.finetune_batch_size, FLAGS.finetune_learning_rate, FLAGS.seed,
    )  # fmt: skip
    classifier.save(output / "classifier.keras")
    classifier.export(output / "saved_model")

    report.draw_curve(curve, pretrained["mlm_loss_unigram"], output / "learning-curve.png")
    report.ask_saved_model(output / "saved_model", corpus.test)
    metrics = {
        **pretrained,
        **accuracies,
        "majority_baseline": round(corpus.majority, 4),
        "labels": len(corpus.labels),
        "documents": len(corpus.train),
        "steps": FLAGS.steps,
        "seed": FLAGS.seed,
        "saved_model": str(output / "saved_model"),
        "seconds": round(time.monotonic() - STARTED, 1),
        "peak_rss_mb": report.peak_megabytes(),
    }
    report.write_metrics(metrics | {"curve": curve, "flags": FLAGS.flag_values_dict()}, output)
    print(json.dumps(metrics))


if __name__ == "__main__":
    app.run(main)
