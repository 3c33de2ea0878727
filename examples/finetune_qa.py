"""Fine-tunes the answering of questions on SQuAD 1.1, 2.0 or the like, with the official scores.

python examples/finetune_qa.py --preset DIR --output_dir OUT --data_dir squad
python examples/finetune_qa.py --preset DIR --output_dir OUT --data_dir squad \
    --version_2_with_negative

The data are `train-v1.1.json` and `dev-v1.1.json` in `--data_dir`, or v2.0, or other files by
`--train_file` and `--predict_file`. Exact match and F1 of the latter are measured after each epoch,
and the best weights kept. In `--output_dir` are `predictions.json`, `nbest_predictions.json`,
`null_odds.json` and the model, of several seeds in a folder each, and `metrics.json`. The last line
is JSON.
"""

import pathlib

import finetuning_flags as common
from absl import app, flags, logging

import keras_bert_zoo as kbz
from keras_bert_zoo.datasets.questions import (
    encode_questions,
    score_answers,
    tuned_null_threshold,
    write_predictions,
)
from keras_bert_zoo.datasets.squad import read_squad
from keras_bert_zoo.training.finetuning import finetune

FLAGS = flags.FLAGS
common.define(metric="f1", max_seq_length=384)
flags.DEFINE_string("train_file", None, "Questions to train on.")
flags.DEFINE_string("predict_file", None, "Questions to answer; scored if it has the answers.")
flags.DEFINE_integer("doc_stride", 128, "Tokens from one window of a long text to the next.")
flags.DEFINE_integer("max_query_length", 64, "Tokens a question is cut to.")
flags.DEFINE_integer("n_best_size", 20, "Candidates in nbest_predictions.json.", lower_bound=1)
flags.DEFINE_integer("max_answer_length", 30, "Most tokens of an answer.", lower_bound=1)
flags.DEFINE_bool("version_2_with_negative", False, "Whether some questions have no answer.")
flags.DEFINE_float("null_score_diff_threshold", None, "For 2.0; that of the best F1 if unset.")
flags.DEFINE_bool("export", True, "Whether to write the model.")


def read(flag, split):
    """Reads the file that a flag names, or that of `--data_dir`."""
    path = FLAGS[flag].value
    if path is None:
        if not FLAGS.data_dir:
            raise app.UsageError(f"--{flag}, or --data_dir, says where the questions are.")
        version = "v2.0" if FLAGS.version_2_with_negative else "v1.1"
        path = pathlib.Path(FLAGS.data_dir) / f"{split}-{version}.json"
    found = read_squad(path, FLAGS.skip_bad_rows)
    if not FLAGS.version_2_with_negative and any(q.is_impossible for q in found):
        raise app.UsageError(f"{path} has questions without answer: --version_2_with_negative.")
    return found


def encoded(questions, task):
    """Questions as windows; says what their answers lose."""
    found = encode_questions(
        questions,
        task.tokenizer,
        FLAGS.max_seq_length,
        FLAGS.doc_stride,
        FLAGS.max_query_length,
        length=FLAGS.max_seq_length if FLAGS.jit_compile else None,
    )
    for key, gold, given in found.inexact:
        logging.warning("%s: the answer %r is not whole tokens, which give %r", key, gold, given)
    if found.outside:
        logging.warning("No window holds all of the answers of: %s", ", ".join(found.outside))
    return found


def main(_):
    common.quiet()
    dev = read("predict_file", "dev")
    train = read("train_file", "train") if FLAGS.do_train else None
    skipped = common.tell_skipped(*filter(None, (train, dev)))
    gold = {q.id: [text for text, _ in q.answers] for q in dev}
    told = all(q.answers or q.is_impossible for q in dev)
    for file in filter(None, (train, dev if FLAGS.do_train else None)):
        if lacking := [q.id for q in file if not q.answers and not q.is_impossible]:
            raise app.UsageError(f"{file.path} has no answers for training: {lacking[:3]}, ...")
    null = FLAGS.version_2_with_negative
    version = "2.0" if null else "1.1"

    def run_seed(seed):
        task = kbz.QuestionAnswering.from_preset(
            FLAGS.preset,
            max_answer_tokens=FLAGS.max_answer_length,
            fixed_length=FLAGS.jit_compile,
            **common.preset_arguments(),
        )
        held_out, history = encoded(dev, task), []

        def answer():
            """The answers to the dev questions, and their scores where they can be told."""
            found = held_out.answers(task, FLAGS.predict_batch_size, FLAGS.n_best_size, null=null)
            threshold = FLAGS.null_score_diff_threshold
            if null and threshold is None:
                threshold = tuned_null_threshold(gold, found) if told else 0.0
            task.null_threshold = threshold if null else None
            if not told:
                return found, {}
            scores = score_answers(gold, found, task.null_threshold, version)
            return found, scores | ({"null_score_diff_threshold": threshold} if null else {})

        if FLAGS.do_train:
            examples = encoded(train.examples[: FLAGS.max_train_examples], task).examples
            recipe = common.recipe() | {"jit_compile": FLAGS.jit_compile}
            tuned = finetune(task, examples, lambda: answer()[1], seed=seed, verbose=2, **recipe)
            history = tuned.history
        found, scores = answer()
        logging.warning("seed %d: %s", seed, scores)
        folder = pathlib.Path(FLAGS.output_dir)
        if len(common.seeds()) > 1:
            folder = folder / f"seed-{seed}"
        write_predictions(folder, found, task.null_threshold)
        if FLAGS.export:
            task.save(folder / "question_answering.keras")
            task.export(folder / "saved_model")
        return (scores if FLAGS.do_eval else {}), history

    common.run(
        run_seed,
        task=f"SQuAD {version}",
        train_questions=len(train.examples[: FLAGS.max_train_examples]) if train else 0,
        dev_questions=len(dev),
        skipped_questions=skipped,
    )


if __name__ == "__main__":
    app.run(main)
