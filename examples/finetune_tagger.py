"""Fine-tunes a tagger of words, such as one of names, and reports F1 of entities as conlleval does.

python examples/finetune_tagger.py --preset DIR --output_dir OUT --data_dir conll2003
python examples/finetune_tagger.py --preset DIR --output_dir OUT --data_file wikigold.conll.txt

`--data_dir` holds train, dev and test, a word a line with its tag; `--data_file` is one such file,
of whose documents 80% are for training, 10% dev and 10% test. With `--feature_based` the encoder is
not trained, and a BiLSTM on its last layers is. The last line is JSON.
"""

import pathlib

import finetuning_flags as common
from absl import app, flags, logging

import keras_bert_zoo as kbz
from keras_bert_zoo.datasets.conll import read_conll, split_documents, tag_labels, write_conll
from keras_bert_zoo.datasets.tagging import encode_tagged
from keras_bert_zoo.metrics.entities import conlleval_table, score_entities
from keras_bert_zoo.metrics.tagging import SCHEMES
from keras_bert_zoo.tasks.feature_tagger import FeatureTagger
from keras_bert_zoo.training.finetuning import finetune

FLAGS = flags.FLAGS
common.define(metric="f1")
flags.DEFINE_string("data_file", None, "One file to be split by documents, not --data_dir.")
flags.DEFINE_integer("token_column", 0, "Column of the words, from 0, or from -1 backwards.")
flags.DEFINE_integer("tag_column", -1, "Column of the tags.")
flags.DEFINE_enum("scheme", None, SCHEMES, "How tags are written; any of these by default.")
flags.DEFINE_string("comments", None, "What lines that are passed over begin with.")
flags.DEFINE_integer("stride", None, "Pieces from a window of a long sentence to the next.")
flags.DEFINE_bool("label_all_pieces", False, "Learn from all pieces of a word, not the first one.")
flags.DEFINE_list("label_weights", None, "Weights of labels in the loss, as O=0.3.")
flags.DEFINE_bool("feature_based", False, "Train a BiLSTM on the frozen encoder's layers.")
flags.DEFINE_enum("combine", "concat", ["concat", "sum", "mix"], "How those layers become one.")
flags.DEFINE_list("layers", None, "Those layers, 0 the embeddings, -1 the last; the last four.")
flags.DEFINE_bool("tagged_test", True, "Whether the test set of --data_dir has tags.")
flags.DEFINE_bool("export", True, "Whether to write the model of the last seed.")


def read(path, with_tags=True, labels=None):
    return read_conll(
        path,
        token_column=FLAGS.token_column,
        tag_column=FLAGS.tag_column if with_tags else None,
        scheme=FLAGS.scheme,
        comments=FLAGS.comments,
        labels=labels,
        skip_bad_rows=FLAGS.skip_bad_rows,
    )


def find(split):
    """The file of a split; a test set is not needed where nothing is predicted."""
    found = [p for p in pathlib.Path(FLAGS.data_dir).glob(f"{split}.*") if p.is_file()]
    if len(found) != 1:
        raise app.UsageError(
            f"--data_dir needs one file {split}.txt or the like. There is: {found}"
        )
    return found[0]


def read_splits():
    """The labels, the sentences of train, dev and test, `None` for no test set, and a number.

    The number is that of the skipped ones.
    """
    if bool(FLAGS.data_file) == bool(FLAGS.data_dir):
        raise app.UsageError("Either --data_dir or --data_file says where the data are.")
    if FLAGS.data_file:
        rows = read(FLAGS.data_file)
        return tag_labels(rows), *split_documents(rows), common.tell_skipped(rows)
    train = read(find("train"))
    labels = tag_labels(train)
    tables = [train, read(find("dev"), labels=labels)]
    if FLAGS.do_predict:
        tables.append(read(find("test"), FLAGS.tagged_test, labels))
    skipped = common.tell_skipped(*tables)
    return labels, *map(list, tables), *[None] * (3 - len(tables)), skipped


def make(labels):
    """The task; without training the preset's own head and labels."""
    arguments = common.preset_arguments() | {"fixed_length": FLAGS.jit_compile}
    if not FLAGS.feature_based:
        more = {"labels": labels} if FLAGS.do_train else {}
        return kbz.TokenClassifier.from_preset(FLAGS.preset, **more, **arguments)
    if not FLAGS.do_train:
        raise app.UsageError("--feature_based makes a network that has to be trained.")
    layers = None if FLAGS.layers is None else [int(place) for place in FLAGS.layers]
    return FeatureTagger.from_preset(
        FLAGS.preset, labels=labels, layers=layers, combine=FLAGS.combine,
        **arguments,
    )  # fmt: skip


def main(_):
    common.quiet()
    if FLAGS.feature_based and FLAGS["learning_rate"].using_default_value:
        FLAGS.learning_rate = 1e-3  # What is trained starts from nothing.
    labels, train, dev, test, skipped = read_splits()
    train = train[: FLAGS.max_train_examples]
    if not train or not dev:
        raise ValueError(f"There are {len(train)} sentences to train on, and {len(dev)} of dev.")
    weights = FLAGS.label_weights and {
        name: float(weight) for name, weight in (part.split("=") for part in FLAGS.label_weights)
    }
    folder = pathlib.Path(FLAGS.output_dir)
    folder.mkdir(parents=True, exist_ok=True)

    def run_seed(seed):
        task = make(labels)

        def predict(sentences):
            words = [sentence.words for sentence in sentences]
            return task.tag(words, FLAGS.predict_batch_size, FLAGS.stride)

        def evaluate():
            scores = score_entities([sentence.tags for sentence in dev], predict(dev))
            return {name: scores[name] for name in ("f1", "precision", "recall", "accuracy")}

        history = []
        if FLAGS.do_train:
            encoded = encode_tagged(task, train, weights, FLAGS.label_all_pieces, FLAGS.stride)
            recipe = common.recipe() | {"jit_compile": FLAGS.jit_compile}
            tuned = finetune(task, encoded, evaluate, seed=seed, verbose=2, **recipe)
            scores, history = tuned.scores, tuned.history
        else:
            scores = evaluate()
        for name, sentences in {"dev": dev, "test": test if FLAGS.do_predict else None}.items():
            if not sentences:
                continue
            columns = [predict(sentences)]
            if sentences[0].tags is not None:
                columns.insert(0, [sentence.tags for sentence in sentences])
                found = score_entities(*columns)
                logging.warning("seed %d, %s:\n%s", seed, name, conlleval_table(found))
                if name == "test":
                    scores = scores | {"test_f1": found["f1"]}
            path = folder / f"{name}-predictions-{seed}.txt"
            write_conll(path, [sentence.words for sentence in sentences], *columns)
        if FLAGS.export and seed == common.seeds()[-1]:
            task.save(folder / "tagger.keras")
            task.export(folder / "saved_model")
        return scores, history

    common.run(
        run_seed,
        labels=labels,
        train_sentences=len(train),
        dev_sentences=len(dev),
        skipped_rows=skipped,
    )


if __name__ == "__main__":
    app.run(main)
