"""Fine-tunes the choice among endings or answers, and reports the accuracy.

python examples/finetune_multiple_choice.py --preset DIR --output_dir OUT \
    --train_file train.csv --dev_file val.csv
python examples/finetune_multiple_choice.py --preset DIR --output_dir OUT --format arc \
    --train_file arc_train.csv --dev_file arc_dev.csv --skip_bad_rows

The files are SWAG's CSV, ARC's CSV without header, or JSON lines of `question`, `choices` and
`answer`. The accuracy on `--dev_file` is measured after each epoch, and the best weights kept;
`--predict_file` may have no answers. In `--output_dir` are `predictions.jsonl` and the model, of
several seeds in a folder each, and `metrics.json`. The last line is JSON.
"""

import json
import pathlib

import finetuning_flags as common
import numpy as np
from absl import app, flags, logging

import keras_bert_zoo as kbz
from keras_bert_zoo.datasets.multiple_choice import READERS, encode_choices
from keras_bert_zoo.training.finetuning import finetune

FLAGS = flags.FLAGS
common.define(metric="accuracy")
FLAGS.set_default("learning_rate", 2e-5)
FLAGS.set_default("train_batch_size", 16)
flags.DEFINE_enum("format", "swag", sorted(READERS), "Format of the files.")
flags.DEFINE_string("train_file", None, "Examples to train on.")
flags.DEFINE_string("dev_file", None, "Examples that are scored.")
flags.DEFINE_string("predict_file", None, "Examples to predict instead of --dev_file.")
flags.DEFINE_bool("export", True, "Whether to write the model.")
flags.mark_flag_as_required("dev_file")


def read(path):
    return READERS[FLAGS.format](path, FLAGS.skip_bad_rows)


def probabilities(task, encoded):
    """The probabilities of the choices of each example."""
    found = [None] * len(encoded)
    counts = encoded.features["padding_mask"].row_lengths().numpy()
    for numbers, logits in encoded.outputs(task, FLAGS.predict_batch_size):
        for number, row in zip(numbers.tolist(), logits.astype(np.float64), strict=True):
            shares = np.exp(row[: counts[number]] - row[: counts[number]].max())
            found[number] = shares / shares.sum()
    return found


def write_predictions(path, examples, found):
    """Writes a JSON line for each example."""
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        for example, shares in zip(examples, found, strict=True):
            row = {"id": example.id, "choice": int(shares.argmax())}
            print(json.dumps(row | {"probabilities": shares.tolist()}), file=file)


def main(_):
    common.quiet()
    if FLAGS.do_train and not FLAGS.train_file:
        raise app.UsageError("--train_file says what to train on; or --nodo_train.")
    dev = read(FLAGS.dev_file)
    train = read(FLAGS.train_file) if FLAGS.do_train else None
    test = read(FLAGS.predict_file) if FLAGS.predict_file else dev
    skipped = common.tell_skipped(*filter(None, (train, dev, None if test is dev else test)))
    for rows in filter(None, (train, dev)):
        if lacking := [e.line for e in rows if e.label is None]:
            raise app.UsageError(f"{rows.path} has no answer in line {lacking[0]}.")
    examples = list(train or ())[: FLAGS.max_train_examples]
    right = np.array([e.label for e in dev])

    def run_seed(seed):
        task = kbz.MultipleChoice.from_preset(
            FLAGS.preset, fixed_length=FLAGS.jit_compile, **common.preset_arguments()
        )
        held_out, history = encode_choices(task, dev), []

        def evaluate():
            best = [shares.argmax() for shares in probabilities(task, held_out)]
            return {"accuracy": 100 * float(np.mean(best == right))}

        if FLAGS.do_train:
            recipe = common.recipe() | {"jit_compile": FLAGS.jit_compile}
            encoded = encode_choices(task, examples)
            tuned = finetune(task, encoded, evaluate, seed=seed, verbose=2, **recipe)
            scores, history = tuned.scores, tuned.history
        else:
            scores = evaluate()
        logging.warning("seed %d: %s", seed, scores)
        folder = pathlib.Path(FLAGS.output_dir)
        if len(common.seeds()) > 1:
            folder = folder / f"seed-{seed}"
        folder.mkdir(parents=True, exist_ok=True)
        asked = held_out if test is dev else encode_choices(task, test)
        write_predictions(folder / "predictions.jsonl", test, probabilities(task, asked))
        if FLAGS.export:
            task.save(folder / "multiple_choice.keras")
            task.export(folder / "saved_model")
        return (scores if FLAGS.do_eval else {}), history

    common.run(
        run_seed,
        task=FLAGS.format,
        train_examples=len(examples),
        dev_examples=len(dev),
        skipped_rows=skipped,
    )


if __name__ == "__main__":
    app.run(main)
