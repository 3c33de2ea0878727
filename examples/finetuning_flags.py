"""Flags that all fine-tuning scripts share, named as in google-research/bert, and their report."""

import json
import os
import pathlib
import time

import keras
import numpy as np
from absl import app, flags, logging

from keras_bert_zoo.training.finetuning import over_seeds

FLAGS = flags.FLAGS


def define(metric: str, max_seq_length: int = 128, num_train_epochs: float = 3.0):
    """Defines the flags; `metric` is the score that decides which epoch is kept by default."""
    flags.DEFINE_string("preset", None, "Folder, hf://owner/name, or name of the encoder.")
    flags.DEFINE_string("data_dir", None, "Folder of the data.")
    flags.DEFINE_string("output_dir", None, "Folder for metrics, predictions and the model.")
    flags.DEFINE_string("vocab_file", None, "Vocabulary instead of the preset's.")
    flags.DEFINE_bool("do_lower_case", None, "Whether to lower-case; as the preset says if unset.")
    flags.DEFINE_integer("max_seq_length", max_seq_length, "Tokens a text is cut to.")
    flags.DEFINE_bool("do_train", True, "Whether to train; without, the preset's head is used.")
    flags.DEFINE_bool("do_eval", True, "Whether to report scores of the dev set.")
    flags.DEFINE_bool("do_predict", False, "Whether to write predictions for the test set.")
    flags.DEFINE_integer("train_batch_size", 32, "Examples a step.", lower_bound=1)
    flags.DEFINE_integer("predict_batch_size", 64, "Examples a batch without training.")
    flags.DEFINE_float("learning_rate", 5e-5, "Peak of the learning rate.", lower_bound=0.0)
    flags.DEFINE_float("num_train_epochs", num_train_epochs, "Passes over the data.")
    flags.DEFINE_float("warmup_proportion", 0.1, "Share of the steps with a rising rate.")
    flags.DEFINE_list("seeds", ["1"], "Seeds; with several each is a run: --seeds=1,2,3.")
    flags.DEFINE_string("metric", metric, "Score of the dev set by which the best epoch is kept.")
    flags.DEFINE_integer("max_train_examples", None, "Take only so many, the first ones.")
    flags.DEFINE_bool("skip_bad_rows", False, "Go on after malformed rows, and list them.")
    flags.DEFINE_bool("jit_compile", False, "Use XLA, which needs a fixed length.")
    flags.DEFINE_enum("precision", "float32", ["float32", "mixed_bfloat16"], "Of the arithmetic.")
    flags.mark_flags_as_required(["preset", "output_dir"])


def preset_arguments() -> dict:
    """What `from_preset` takes from the flags."""
    return {
        "vocabulary": FLAGS.vocab_file,
        "lowercase": FLAGS.do_lower_case,
        "sequence_length": FLAGS.max_seq_length,
        "dtype": FLAGS.precision,
    }


def recipe() -> dict:
    """What `finetune` takes from the flags."""
    return {
        "metric": FLAGS.metric,
        "epochs": FLAGS.num_train_epochs,
        "batch_size": FLAGS.train_batch_size,
        "learning_rate": FLAGS.learning_rate,
        "warmup_proportion": FLAGS.warmup_proportion,
    }


def seeds() -> list[int]:
    try:
        return [int(seed) for seed in FLAGS.seeds]
    except ValueError:
        raise app.UsageError(f"--seeds are whole numbers. Received: {FLAGS.seeds}") from None


def tell_skipped(*tables):
    """Says which rows were skipped, and returns how many."""
    for table in tables:
        if table.summary:
            logging.warning(table.summary)
    return sum(len(table.skipped) for table in tables)


def run(run_seed, **more) -> None:
    """Runs each seed, writes `metrics.json`, one of each seed, and a picture; prints JSON last.

    Args:
        run_seed: takes a seed and returns `(scores, history)`: the scores of the dev set, and those
            of each epoch as `Finetuned.history` has them, [] without training.
        **more: what else stands in the report.
    """
    start = time.perf_counter()
    histories = {}

    folder = pathlib.Path(FLAGS.output_dir)
    folder.mkdir(parents=True, exist_ok=True)

    def scores_of(seed):
        scores, histories[seed] = run_seed(seed)
        # What a seed gave is not lost if the next one fails.
        text = json.dumps({"seed": seed, "scores": scores, "history": histories[seed]}, indent=2)
        (folder / f"metrics-{seed}.json").write_text(text + "\n", encoding="utf-8")
        return scores

    summary = over_seeds(scores_of, seeds())
    report = {name: values["mean"] for name, values in summary.items()}
    report |= {
        "spread": summary,
        "seeds": seeds(),
        "preset": FLAGS.preset,
        "metric": FLAGS.metric,
        "epochs": FLAGS.num_train_epochs,
        "batch_size": FLAGS.train_batch_size,
        "learning_rate": FLAGS.learning_rate,
        "seconds": round(time.perf_counter() - start, 1),
        **more,
    }
    whole = report | {"history": histories, "flags": FLAGS.flag_values_dict()}
    text = json.dumps(whole, indent=2, default=str)
    (folder / "metrics.json").write_text(text + "\n", encoding="utf-8")
    draw(folder / "learning-curve.png", histories, FLAGS.metric)
    print(json.dumps(report))


def plots():
    """Matplotlib's functions for pictures in files; `None`, with a warning, if it is missing."""
    try:
        import matplotlib
    except ImportError:
        logging.warning("No picture: pip install 'keras-bert-zoo[examples]' brings matplotlib.")
        return None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def draw(path, histories, metric):
    """Draws the metric and the loss over the epochs, a line a seed; nothing without matplotlib."""
    pyplot = plots() if any(histories.values()) else None
    if pyplot is None:
        return
    figure, axes = pyplot.subplots(1, 2, figsize=(10, 4))
    for seed, history in histories.items():
        epochs = [row["epoch"] for row in history]
        for axis, name in zip(axes, (metric, "loss"), strict=True):
            axis.plot(epochs, [row[name] for row in history], "o-", label=f"seed {seed}")
            axis.set(xlabel="epoch", title=name)
    axes[0].legend()
    figure.tight_layout()
    figure.savefig(path)
    pyplot.close(figure)


def draw_confusion(path, matrix, labels):
    """Draws how often each label (down) was predicted as each (across)."""
    pyplot = plots()
    if pyplot is None:
        return
    size = 3 + 0.4 * len(labels)
    figure, axis = pyplot.subplots(figsize=(size, size))
    shares = matrix / matrix.sum(axis=1, keepdims=True).clip(1)
    axis.imshow(shares, vmin=0, vmax=1, cmap="Blues")
    for (row, column), count in np.ndenumerate(matrix):
        color = "white" if shares[row, column] > 0.5 else "black"
        axis.text(column, row, str(count), ha="center", va="center", color=color)
    places = range(len(labels))
    axis.set_xticks(places, labels, rotation=45, ha="right")
    axis.set_yticks(places, labels)
    axis.set(xlabel="predicted", ylabel="right")
    figure.tight_layout()
    figure.savefig(path)
    pyplot.close(figure)


def quiet():
    """Leaves warnings and results on the screen, and not what TensorFlow says of itself."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    logging.set_verbosity(logging.WARNING)
    keras.utils.disable_interactive_logging() if not os.isatty(1) else None
