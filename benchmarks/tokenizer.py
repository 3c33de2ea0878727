"""Speed of WordPieceTokenizer beside Hugging Face's `tokenizers`, in alternating runs.

    python benchmarks/tokenizer.py --text_files 'texts/*.txt' --vocabulary vocab.txt

Rates are MB of UTF-8 a second, of the clock and of CPU time; the ratio is ours over theirs. The
last line is JSON.
"""

import glob
import json
import pathlib
import statistics
import time

import tensorflow as tf
import tokenizers
from absl import app, flags

from keras_bert_zoo.text.wordpiece import WordPieceTokenizer

FLAGS = flags.FLAGS
flags.DEFINE_string("text_files", None, "Glob of text files, one text a line.", required=True)
flags.DEFINE_string("vocabulary", None, "Path of a WordPiece vocabulary.", required=True)
flags.DEFINE_bool("lowercase", True, "Whether the vocabulary is uncased.")
flags.DEFINE_integer("batch_size", 8192, "Texts a call.", lower_bound=1)
flags.DEFINE_integer("repeats", 5, "Timed runs of each.", lower_bound=1)


def _seconds(run):
    """Seconds of the clock and of all threads' CPU time."""
    clock, cpu = time.perf_counter(), time.process_time()
    run()
    return time.perf_counter() - clock, time.process_time() - cpu


def main(_):
    paths = sorted(glob.glob(FLAGS.text_files))
    if not paths:
        raise app.UsageError(f"No file matches --text_files={FLAGS.text_files}.")
    lines = [x for path in paths for x in pathlib.Path(path).read_text("utf-8").split("\n") if x]
    megabytes = sum(len(line.encode()) for line in lines) / 1e6
    batches = [lines[i : i + FLAGS.batch_size] for i in range(0, len(lines), FLAGS.batch_size)]

    tokenizer = WordPieceTokenizer(FLAGS.vocabulary, lowercase=FLAGS.lowercase)
    theirs = tokenizers.BertWordPieceTokenizer(FLAGS.vocabulary, lowercase=FLAGS.lowercase)
    traced = tf.function(tokenizer, input_signature=[tf.TensorSpec([None], tf.string)])
    tensors = [tf.constant(batch) for batch in batches]

    ids = [row for tensor in tensors for row in traced(tensor).to_list()]
    expected = theirs.encode_batch(lines, add_special_tokens=False)
    differ = sum(a != b.ids for a, b in zip(ids, expected, strict=True))

    runs = {
        "ours": lambda: [traced(tensor) for tensor in tensors],
        "tokenizers": lambda: [theirs.encode_batch(b, add_special_tokens=False) for b in batches],
    }
    seconds = {name: [] for name in runs}
    for _ in range(FLAGS.repeats):
        for name, run in runs.items():
            seconds[name].append(_seconds(run))
    result = {
        "files": [pathlib.Path(path).name for path in paths],
        "texts": len(lines),
        "megabytes": round(megabytes, 3),
        "texts_with_other_ids": differ,
    }
    for i, unit in enumerate(("second", "cpu_second")):
        medians = {name: statistics.median(t[i] for t in times) for name, times in seconds.items()}
        for name, median in medians.items():
            result[f"{name}_mb_per_{unit}"] = round(megabytes / median, 2)
            print(f"{name:>10}: {megabytes / median:6.2f} MB a {unit}")
        result[f"ratio_per_{unit}"] = round(medians["tokenizers"] / medians["ours"], 2)
    print(json.dumps(result))


if __name__ == "__main__":
    app.run(main)
