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
from keras_bert_zoo.metrics.classification import (
    accuracy,
    confusion_matrix,
    precision_recall_f1,
)
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


def read(split, labels=None):
    """Reads a split, in which no other labels than these may stand."""
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
        labels=labels,
        regression=FLAGS.regression,
        skip_bad_rows=FLAGS.skip_bad_rows,
    )


def scores_of(predicted, right, labels):
    """The official scores of a task of GLUE; of others accuracy and F1, or correlations."""
    if FLAGS.task_name:
        return glue_scores(FLAGS.task_name, predicted, right)
    if labels is None:
        return glue_scores("STS-B", predicted, right)
    macro = precision_recall_f1(right, predicted, average="macro", classes=labels).f1
    return {"accuracy": accuracy(right, predicted), "macro_f1": macro}


def weights_of(examples, labels):
    """A weight for each example by its label, or `None`."""
    if not FLAGS.class_weights:
        return None
    parts = [part.rpartition("=") for part in FLAGS.class_weights]
    try:
        by_label = {name: float(weight) for name, _, weight in parts}
    except ValueError:
        by_label = {None: 0.0}
    if labels is None or not set(by_label) <= set(labels) or min(by_label.values()) < 0:
        raise app.UsageError(
            f"--class_weights are label=weight, of the labels {', '.join(labels or ['(none)'])}. "
            f"Received: {','.join(FLAGS.class_weights)}"
        )
    return np.array([by_label.get(e.label, 1.0) for e in examples], np.float32)


def main(_):
    common.quiet()
    if not FLAGS.data_dir and not FLAGS.tfds:
        raise app.UsageError("--data_dir, or --tfds, says where the data are.")
    chosen = FLAGS.task_name and glue_task(FLAGS.task_name)
    train = read("train")
    regression = FLAGS.regression or isinstance(train.examples[0].label, float)
    labels = None if regression else list(chosen.classes) if chosen else labels_of(train)
    dev = read("dev", labels)
    test = read("test") if FLAGS.do_predict else None
    skipped = common.tell_skipped(*filter(None, (train, dev, test)))
    for rows in (train, dev):
        lacking = [e.line for e in rows if e.label is None]
        unknown = [e.line for e in rows if labels and e.label not in labels]
        if lacking or unknown:
            raise app.UsageError(
                f"{rows.path}, line {(lacking or unknown)[0]}: there is no label, or none of "
                f"{', '.join(labels or ['numbers'])}."
            )
    if not FLAGS.metric:
        FLAGS.metric = "pearson" if regression else "accuracy"
        if chosen:
            FLAGS.metric = chosen.metrics[-1 if chosen.name == "MRPC" else 0]
    examples = list(train)[: FLAGS.max_train_examples]
    class_weights = weights_of(examples, labels)
    right = [e.label for e in dev]
    length = FLAGS.max_seq_length if FLAGS.jit_compile else None
    folder = pathlib.Path(FLAGS.output_dir)
    folder.mkdir(parents=True, exist_ok=True)

    def run_seed(seed):
        task = kbz.TextClassifier.from_preset(
            FLAGS.preset,
            labels=labels,
            fixed_length=FLAGS.jit_compile,
            **common.preset_arguments(),
        )

        def encoded(rows, *learnt):
            return encode(task.read_texts, columns_of(rows), *learnt, length=length)

        def predict(encoded):
            outputs = np.zeros([len(encoded), len(labels) if labels else 1], np.float32)
            for numbers, logits in encoded.outputs(task, FLAGS.predict_batch_size):
                outputs[numbers] = logits
            if labels is None:
                return outputs[:, 0].tolist()
            return [labels[n] for n in outputs.argmax(axis=1)]

        held_out = encoded(dev)

        def evaluate():
            return scores_of(predict(held_out), right, labels)

        history = []
        if FLAGS.do_train:
            targets = [e.label if labels is None else labels.index(e.label) for e in examples]
            targets = np.array(targets, np.float32 if labels is None else np.int32)
            recipe = common.recipe() | {"jit_compile": FLAGS.jit_compile}
            tuned = finetune(
                task, encoded(examples, targets, class_weights), evaluate, seed=seed, verbose=2,
                **recipe,
            )  # fmt: skip
            scores, history = tuned.scores, tuned.history
        else:
            scores = evaluate()
        logging.warning("seed %d: %s", seed, scores)
        if labels is not None:
            matrix = confusion_matrix(right, predict(held_out), labels)
            np.savetxt(folder / f"confusion-{seed}.tsv", matrix, fmt="%d", delimiter="\t",
                       header="\t".join(labels))  # fmt: skip
            common.draw_confusion(folder / f"confusion-{seed}.png", matrix, labels)
        if test is not None:
            predicted = predict(encoded(test))
            if chosen:
                write_predictions(folder / f"seed-{seed}", FLAGS.task_name, predicted)
            else:
                text = "".join(f"{value}\n" for value in predicted)
                (folder / f"predictions-{seed}.txt").write_text(text, encoding="utf-8")
        if FLAGS.export and seed == common.seeds()[-1]:
            task.save(folder / "classifier.keras")
            task.export(folder / "saved_model")
        return (scores if FLAGS.do_eval else {}), history

    common.run(
        run_seed,
        task=chosen.name if chosen else None,
        train_examples=len(examples),
        dev_examples=len(dev),
        skipped_rows=skipped,
    )


if __name__ == "__main__":
    app.run(main)
