"""Fine-tunes a classifier of texts or pairs, or a regression, and reports the official scores.

python examples/finetune_classifier.py --preset DIR --output_dir OUT --data_dir glue \\
    --task_name MRPC
python examples/finetune_classifier.py --preset DIR --output_dir OUT --data_dir my --label stars

With `--task_name` the data are GLUE's own files, or TFDS's with `--tfds`. Otherwise `--data_dir`
holds train, dev and test as .tsv, .csv or .jsonl with named columns. The last line is JSON.
"""

import pathlib

import finetuning_flags as common
import numpy as np
from absl import app, flags, logging

import keras_bert_zoo as kbz
from keras_bert_zoo.datasets.labelled_texts import (
    columns_of,
    labels_of,
    read_glue,
    read_labelled_table,
    read_tfds,
)
from keras_bert_zoo.datasets.pipeline import encode
from keras_bert_zoo.metrics.classification import confusion_matrix
from keras_bert_zoo.metrics.glue import glue_scores, glue_task, write_predictions
from keras_bert_zoo.training.finetuning import finetune

FLAGS = flags.FLAGS
common.define(metric="")
flags.DEFINE_string("task_name", None, "A task of GLUE: CoLA, SST-2, MRPC, QQP, STS-B, MNLI, ...")
flags.DEFINE_string("tfds", None, "A data set of TFDS that lies on this machine, like glue/mrpc.")
flags.DEFINE_string("text_a", "text", "Column of the texts, or of the first ones of pairs.")
flags.DEFINE_string("text_b", None, "Column of the second texts.")
flags.DEFINE_string("label", "label", "Column of the labels.")
flags.DEFINE_bool("regression", False, "Whether labels are numbers to be predicted.")
flags.DEFINE_list("class_weights", None, "Weights of the labels, as name=weight.")
flags.DEFINE_bool("export", True, "Whether to write the model of the last seed.")


def read(split):
    """Reads a split; `None` if there is no such file of one that may be missing."""
    if FLAGS.tfds:
        return read_tfds(FLAGS.tfds, {"dev": "validation"}.get(split, split), FLAGS.data_dir)
    if FLAGS.task_name:
        return read_glue(FLAGS.data_dir, FLAGS.task_name, split, FLAGS.skip_bad_rows)
    found = [p for p in pathlib.Path(FLAGS.data_dir).glob(f"{split}.*") if p.is_file()]
    if len(found) != 1:
        raise app.UsageError(f"--data_dir needs one file {split}.tsv, .csv or .jsonl: {found}")
    return read_labelled_table(
        found[0],
        FLAGS.text_a,
        FLAGS.text_b,
        FLAGS.label,
        regression=FLAGS.regression,
        skip_bad_rows=FLAGS.skip_bad_rows,
    )


def scores_of(predicted, right, labels):
    """The official scores of a task of GLUE; accuracy and F1, or correlations, of any other."""
    if FLAGS.task_name:
        return glue_scores(FLAGS.task_name, predicted, right)
    if labels is None:
        return glue_scores("STS-B", predicted, right)
    hits = np.mean([p == r for p, r in zip(predicted, right, strict=True)])
    return {"accuracy": float(hits)}


def main(_):
    common.quiet()
    if not FLAGS.data_dir and not FLAGS.tfds:
        raise app.UsageError("--data_dir, or --tfds, says where the data are.")
    chosen = FLAGS.task_name and glue_task(FLAGS.task_name)
    train, dev = read("train"), read("dev")
    skipped = common.tell_skipped(train, dev)
    regression = FLAGS.regression or bool(chosen and not chosen.classes)
    labels = None if regression else list(chosen.classes) if chosen else labels_of(train)
    if not FLAGS.metric:
        FLAGS.metric = (
            chosen.metrics[-1 if chosen.name == "MRPC" else 0]
            if chosen
            else ("pearson" if regression else "accuracy")
        )
    examples = list(train)[: FLAGS.max_train_examples]
    unknown = {e.label for e in dev if e.label is not None} - set(labels or ()) - {None}
    if labels is not None and unknown:
        raise ValueError(f"{dev.path} has labels that {train.path} has not: {sorted(unknown)}")

    def run_seed(seed):
        task = kbz.TextClassifier.from_preset(
            FLAGS.preset, labels=labels, **common.preset_arguments()
        )
        targets = np.array(
            [e.label if labels is None else labels.index(e.label) for e in examples],
            np.float32 if labels is None else np.int32,
        )
        weights = None
        if FLAGS.class_weights:
            by_name = dict(part.split("=") for part in FLAGS.class_weights)
            weights = np.array([float(by_name.get(e.label, 1)) for e in examples], np.float32)
        held_out = encode(task.read_texts, columns_of(dev))

        def predict(encoded):
            outputs = np.zeros([len(encoded), len(labels) if labels else 1], np.float32)
            for numbers, logits in encoded.outputs(task, FLAGS.predict_batch_size):
                outputs[numbers] = logits
            if labels is None:
                return outputs[:, 0].tolist()
            return [labels[n] for n in outputs.argmax(axis=1)]

        def evaluate():
            return scores_of(predict(held_out), [e.label for e in dev], labels)

        history = []
        if FLAGS.do_train:
            encoded = encode(task.read_texts, columns_of(examples), targets, weights)
            tuned = finetune(task, encoded, evaluate, seed=seed, verbose=2, **common.recipe())
            scores, history = tuned.scores, tuned.history
        else:
            scores = evaluate()
        logging.warning("seed %d: %s", seed, scores)
        folder = pathlib.Path(FLAGS.output_dir)
        folder.mkdir(parents=True, exist_ok=True)
        if labels is not None:
            matrix = confusion_matrix([e.label for e in dev], predict(held_out), labels)
            np.savetxt(folder / f"confusion-{seed}.tsv", matrix, fmt="%d", delimiter="\t",
                       header="\t".join(labels))  # fmt: skip
        if FLAGS.do_predict:
            test = read("test")
            predicted = predict(encode(task.read_texts, columns_of(test)))
            if chosen:
                write_predictions(folder / f"seed-{seed}", FLAGS.task_name, predicted)
            else:
                text = "".join(f"{value}\n" for value in predicted)
                (folder / f"predictions-{seed}.txt").write_text(text, encoding="utf-8")
        if FLAGS.export and seed == common.seeds()[-1]:
            task.save(folder / "classifier.keras")
            task.export(folder / "saved_model")
        return scores, history

    common.run(
        run_seed,
        task=chosen.name if chosen else None,
        train_examples=len(examples),
        dev_examples=len(dev),
        skipped_rows=skipped,
    )


if __name__ == "__main__":
    app.run(main)
