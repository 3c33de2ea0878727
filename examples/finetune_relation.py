"""Fine-tunes R-BERT on SemEval-2010 task 8, with the official score.

python examples/finetune_relation.py --preset DIR --output_dir OUT --data_dir semeval2010_task8

The data are `TRAIN_FILE.TXT` and `TEST_FILE_FULL.TXT` in `--data_dir`, or other files of their
format. The paper's ablations are `--nomarkers` and `--noentity_vectors`. The official macro-F1 of
the test file is measured after each epoch. The last epoch stands, as there is no dev set to choose
one by; with `--held_out_examples=800` as many of the training sentences choose it, the last ones.
In `--output_dir` are `proposed_answers.txt` and `answer_key.txt`, as the official scorer takes
them, `report.txt` and the model, of several seeds in a folder each, and `metrics.json`. A
`.keras` file as `--preset`, with `--nodo_train`, answers again. The last line is JSON.
"""

import pathlib

import finetuning_flags as common
import keras
from absl import app, flags, logging

from keras_bert_zoo.datasets.semeval import encode_relations, read_relations
from keras_bert_zoo.metrics.relations import (
    LABELS,
    relation_report,
    relation_tables,
    score_relations,
    write_answers,
)
from keras_bert_zoo.tasks.relation import RelationClassifier
from keras_bert_zoo.training.finetuning import finetune

FLAGS = flags.FLAGS
common.define(metric="macro_f1", num_train_epochs=5.0)
FLAGS.set_default("learning_rate", 2e-5)
FLAGS.set_default("train_batch_size", 16)
flags.DEFINE_string("train_file", None, "Sentences to train on.")
flags.DEFINE_string("test_file", None, "Sentences to answer; scored if it has labels.")
flags.DEFINE_integer("held_out_examples", 0, "Training sentences that choose the epoch instead.")
flags.DEFINE_bool("markers", True, "Whether $ and # stand around the entities.")
flags.DEFINE_bool("entity_vectors", True, "Whether the head reads the entities' vectors.")
flags.DEFINE_bool("export", True, "Whether to write the model.")


def read(path, name, labelled):
    if path is None:
        if not FLAGS.data_dir:
            raise app.UsageError(f"--data_dir, or a flag for {name}, says where the data are.")
        path = pathlib.Path(FLAGS.data_dir) / name
    return read_relations(path, labelled=labelled, skip_bad_rows=FLAGS.skip_bad_rows)


def build():
    if FLAGS.preset.endswith(".keras"):
        return keras.saving.load_model(FLAGS.preset)
    if not FLAGS.do_train:
        raise app.UsageError("--nodo_train takes a .keras file of an earlier run as --preset.")
    return RelationClassifier.from_preset(
        FLAGS.preset,
        labels=LABELS,
        markers=FLAGS.markers,
        entity_vectors=FLAGS.entity_vectors,
        fixed_length=FLAGS.jit_compile,
        **common.preset_arguments(),
    )


def answers(task, encoded, examples):
    """The labels that the task gives, by the number of the sentence."""
    found = {}
    for numbers, logits in encoded.outputs(task, FLAGS.predict_batch_size):
        for number, best in zip(numbers.tolist(), logits.argmax(axis=-1).tolist(), strict=True):
            found[examples[number].id] = task.labels[best]
    return {example.id: found[example.id] for example in examples}


def main(_):
    common.quiet()
    test = read(FLAGS.test_file, "TEST_FILE_FULL.TXT", labelled=False)
    train = read(FLAGS.train_file, "TRAIN_FILE.TXT", labelled=True) if FLAGS.do_train else None
    skipped = common.tell_skipped(*filter(None, (train, test)))
    key = {e.id: e.label for e in test if e.label is not None}
    if 0 < len(key) < len(test):
        raise app.UsageError(f"{test.path} has labels for {len(key)} of {len(test)} sentences.")
    count = FLAGS.held_out_examples
    examples = list(train or ())[: FLAGS.max_train_examples]
    if FLAGS.do_train and not (key or count):
        raise app.UsageError(f"{test.path} has no labels to score by: --held_out_examples.")
    if not 0 <= count <= len(examples) // 2:
        raise app.UsageError(f"--held_out_examples is at most half of {len(examples)} sentences.")
    examples, held_out = examples[: len(examples) - count], examples[len(examples) - count :]
    if not key:
        FLAGS.metric = "held_out_macro_f1"

    def run_seed(seed):
        task, history = build(), []
        to_answer = encode_relations(task, test)
        chosen_by = {e.id: e.label for e in held_out}
        chooser = encode_relations(task, held_out) if held_out else None
        epochs = []

        def evaluate():
            epochs.append(len(epochs) + 1)
            scores = {}
            if key:
                found = score_relations(answers(task, to_answer, test.examples), key)
                fine = found["with_direction_labels"]
                scores = {"macro_f1": found["macro_f1"], "accuracy": fine["accuracy"]}
            if held_out:
                found = score_relations(answers(task, chooser, held_out), chosen_by)
                scores["held_out_macro_f1"] = found["macro_f1"]
            return scores | {"epochs": epochs[-1]}

        if FLAGS.do_train:
            recipe = common.recipe() | {"jit_compile": FLAGS.jit_compile}
            recipe["metric"] = "held_out_macro_f1" if held_out else "epochs"
            encoded = encode_relations(task, examples)
            tuned = finetune(task, encoded, evaluate, seed=seed, verbose=2, **recipe)
            scores, history = dict(tuned.scores), tuned.history
        else:
            scores = evaluate()
        scores.pop("epochs")
        logging.warning("seed %d: %s", seed, scores)
        folder = pathlib.Path(FLAGS.output_dir)
        if len(common.seeds()) > 1:
            folder = folder / f"seed-{seed}"
        folder.mkdir(parents=True, exist_ok=True)
        proposed = answers(task, to_answer, test.examples)
        write_answers(folder / "proposed_answers.txt", proposed)
        if key:
            write_answers(folder / "answer_key.txt", key)
            report = relation_report(relation_tables(proposed, key))
            (folder / "report.txt").write_text(report, encoding="utf-8")
        if FLAGS.export:
            task.save(folder / "relation.keras")
            task.export(folder / "saved_model")
        return (scores if FLAGS.do_eval else {}), history

    common.run(
        run_seed,
        task="SemEval-2010 task 8",
        markers=FLAGS.markers,
        entity_vectors=FLAGS.entity_vectors,
        train_examples=len(examples),
        held_out_examples=len(held_out),
        test_examples=len(test),
        skipped_rows=skipped,
    )


if __name__ == "__main__":
    app.run(main)
