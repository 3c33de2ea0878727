"""Lets a trained model answer: one JSON line for each text, pair, question or choice.

python examples/predict.py --model OUT/classifier.keras --text "a fine film" --text "no"
python examples/predict.py --model OUT/tagger.keras --input_file texts.txt --output_file tags.jsonl
python examples/predict.py --model DIR --input_file questions.jsonl

The model is a `.keras` file of the fine-tuning scripts, or a preset with a head: a Hugging Face
folder, hf://owner/name. A `.txt` file holds a text a line; `.tsv` and `.csv` have a header, and
`.jsonl` keys, by which columns are found: `text`; `text_a` and `text_b` of pairs; `question` and
`context` for question answering; for multiple choice (JSON lines only) `question` and a list
`choices`. Relations are read from texts with <e1>...</e1> and <e2>...</e2>. Each answer has the
number of its `line`. Without `--output_file` the answers go to the screen.
"""

import contextlib
import json
import os
import pathlib
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
from absl import app, flags, logging

import keras_bert_zoo as kbz
from keras_bert_zoo.datasets.multiple_choice import read_choices
from keras_bert_zoo.datasets.rows import read_lines
from keras_bert_zoo.datasets.tables import read_table
from keras_bert_zoo.tasks.architectures import task_of_preset

FLAGS = flags.FLAGS
flags.DEFINE_string("model", None, "A .keras file, or a preset with a head.")
flags.DEFINE_multi_string("text", None, "A text to answer at once; may be given several times.")
flags.DEFINE_string("input_file", None, "The texts: .txt, .tsv, .csv or .jsonl.")
flags.DEFINE_string("output_file", None, "JSON lines to write; the screen by default.")
flags.DEFINE_bool(
    "pairs", None, "Whether to read `text_a` and `text_b`; as the model says if unset."
)
flags.DEFINE_integer("predict_batch_size", 32, "Examples a batch.", lower_bound=1)
flags.DEFINE_bool("skip_bad_rows", False, "Go on after malformed rows, and list them.")
flags.mark_flag_as_required("model")

CHUNK = 1024  # Rows that are answered together.


def load(name):
    """The task of a `.keras` file or of a preset."""
    path = pathlib.Path(name)
    if path.suffix == ".keras":
        if not path.is_file():
            raise app.UsageError(f"There is no file {path}.")
        return keras.saving.load_model(path)
    if (path / "saved_model.pb").is_file():
        raise app.UsageError(
            f"{path} is a SavedModel, which answers without this package, see examples/ask.py."
        )
    kind = task_of_preset(name)
    if kind is None:
        raise app.UsageError(f"{name} is an encoder without a head: it has nothing to answer by.")
    return kind.from_preset(name)


def columns_of(task):
    """The columns that a task reads."""
    if isinstance(task, kbz.MultipleChoice):
        return ("question", "choices")
    if isinstance(task, kbz.QuestionAnswering):
        return ("question", "context")
    pairs = task.pair if FLAGS.pairs is None else FLAGS.pairs
    return ("text_a", "text_b") if pairs else ("text",)


def read(columns):
    """The rows to answer: dicts of the columns, and of the number of the `line`."""
    if FLAGS.text or FLAGS.input_file.endswith(".txt"):
        if columns != ("text",):
            raise app.UsageError(
                f"The model takes {' and '.join(columns)}, not one text a line: give it an "
                "--input_file that ends in .jsonl or, of texts only, in .tsv or .csv."
            )
        lines = enumerate(FLAGS.text, 1) if FLAGS.text else read_lines(FLAGS.input_file)
        return [{"line": line, "text": text} for line, text in lines]
    if "choices" in columns:
        table = read_choices(FLAGS.input_file, FLAGS.skip_bad_rows)
        rows = [{"line": e.line, "question": e.context, "choices": e.endings} for e in table]
    else:
        wanted = {name: name for name in columns}
        table = read_table(FLAGS.input_file, wanted, skip_bad_rows=FLAGS.skip_bad_rows)
        rows = list(table)
    if table.summary:
        logging.warning(table.summary)
    return rows


def answer(task, rows):
    """What a task says of rows, a dict each."""
    batch_size = FLAGS.predict_batch_size
    columns = [[row[name] for row in rows] for name in columns_of(task)]
    if isinstance(task, kbz.QuestionAnswering):
        return task.answer(*columns, batch_size=batch_size)
    if isinstance(task, kbz.MultipleChoice):
        return task.choose(dict(zip(("text_a", "text_b"), columns, strict=True)), batch_size)
    texts = tuple(columns) if len(columns) == 2 else columns[0]
    if isinstance(task, (kbz.TokenClassifier, kbz.FeatureTagger)):
        return [{"words": words} for words in task.tag(texts, batch_size=batch_size)]
    if isinstance(task, kbz.TextEmbedder):
        vectors = task.embed(texts, batch_size=batch_size, verbose=0)
        return [{"embedding": vector.tolist()} for vector in vectors]
    if isinstance(task, kbz.MaskedLM):
        return [{"masks": masks} for masks in task.fill(texts, batch_size=batch_size)]
    if hasattr(task, "classify"):
        return task.classify(texts, batch_size=batch_size)
    raise app.UsageError(f"{type(task).__name__} has nothing to answer texts by.")


@contextlib.contextmanager
def output_file():
    """The file to write, which appears when it is whole; or the screen."""
    if not FLAGS.output_file:
        yield sys.stdout
        return
    path = pathlib.Path(FLAGS.output_file)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    try:
        with open(partial, "w", encoding="utf-8", newline="\n") as file:
            yield file
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def main(_):
    if bool(FLAGS.text) == bool(FLAGS.input_file):
        raise app.UsageError("Either --text or --input_file says what to answer.")
    if FLAGS.output_file and pathlib.Path(FLAGS.output_file).is_dir():
        raise app.UsageError(f"--output_file is a folder: {FLAGS.output_file}")
    logging.set_verbosity(logging.WARNING)
    task = load(FLAGS.model)
    if task.preprocessor is None:
        raise app.UsageError(f"{FLAGS.model} has no vocabulary, so its model cannot read texts.")
    rows = read(columns_of(task))
    bar = keras.utils.Progbar(len(rows), verbose=int(bool(FLAGS.output_file)), unit_name="text")
    with output_file() as file:
        for first in range(0, len(rows), CHUNK):
            chunk = rows[first : first + CHUNK]
            for row, found in zip(chunk, answer(task, chunk), strict=True):
                print(json.dumps({"line": row["line"]} | found, ensure_ascii=False), file=file)
            bar.add(len(chunk))


if __name__ == "__main__":
    app.run(main)
