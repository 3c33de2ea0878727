"""Judges the vectors of a sentence encoder on pairs of sentences with scores (STS-B).

python examples/evaluate_similarity.py --preset DIR --sts_tsv sts-test.tsv

The similarity of a pair is the cosine of its two vectors. The last line printed is JSON: Spearman's
and Pearson's correlation with the scores, times 100, and the texts read a second.
"""

import json
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
from absl import app, flags

import keras_bert_zoo as kbz
from keras_bert_zoo.metrics.correlation import pearson, spearman

FLAGS = flags.FLAGS
flags.DEFINE_string("preset", None, "Folder, hf://owner/name, or name of the encoder.")
flags.DEFINE_string("sts_tsv", None, "Tab-separated file; a header names score, sentence1/2.")
flags.DEFINE_integer("score_column", 5, "Column of the scores, from 1, in a file without header.")
flags.DEFINE_list("text_columns", ["6", "7"], "Columns of the texts, in a file without header.")
flags.DEFINE_enum("pooling", None, ["cls", "mean", "max"], "Instead of the preset's pooling.")
flags.DEFINE_integer("max_seq_length", None, "Tokens a text is cut to; the preset's by default.")
flags.DEFINE_integer("batch_size", 64, "Texts a batch.")
flags.mark_flags_as_required(["preset", "sts_tsv"])


def read_pairs(path, score_column, text_columns):
    """Reads scores, first and second texts; a ValueError names the line that is wrong."""
    rows = []
    places = [score_column - 1, *(column - 1 for column in text_columns)]
    with open(path, encoding="utf-8-sig", newline="\n") as file:
        for line, text in enumerate(file, 1):
            row = text.removesuffix("\n").removesuffix("\r").split("\t")
            if line == 1 and {"sentence1", "sentence2", "score"} <= set(row):
                places = [row.index(name) for name in ("score", "sentence1", "sentence2")]
                continue
            try:
                score, first, second = (row[place] for place in places)
                rows.append((float(score), first, second))
            except (IndexError, ValueError):
                raise ValueError(
                    f"{path}, line {line}: a score is needed in column {places[0] + 1}, and texts "
                    f"in columns {places[1] + 1} and {places[2] + 1}. The line has {len(row)} "
                    f"columns: {row!r:.200}"
                ) from None
    if len(rows) < 2:
        raise ValueError(f"{path} has {len(rows)} pairs, and a correlation needs two at least.")
    return zip(*rows, strict=True)


def main(_):
    try:
        first, second = map(int, FLAGS.text_columns)
        if min(first, second, FLAGS.score_column) < 1:
            raise ValueError
    except ValueError:
        raise app.UsageError(
            "--score_column is a number from 1, and --text_columns are two, such as 6,7."
        ) from None
    pairs = read_pairs(FLAGS.sts_tsv, FLAGS.score_column, (first, second))
    scores, first, second = map(list, pairs)
    pooling = {"pooling": FLAGS.pooling} if FLAGS.pooling else {}
    embedder = kbz.TextEmbedder.from_preset(
        FLAGS.preset, sequence_length=FLAGS.max_seq_length, **pooling
    )
    embedder.embed(first[: FLAGS.batch_size], verbose=0)  # Traced before time is taken.
    start = time.perf_counter()
    vectors = embedder.embed(first + second, batch_size=FLAGS.batch_size)
    seconds = time.perf_counter() - start
    vectors /= np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)
    cosines = (vectors[: len(first)] * vectors[len(first) :]).sum(axis=-1)
    print(
        json.dumps(
            {
                "spearman": round(100 * spearman(cosines, scores), 4),
                "pearson": round(100 * pearson(cosines, scores), 4),
                "texts_per_second": round(2 * len(first) / seconds, 1),
                "pairs": len(first),
                "pooling": embedder.pooling,
                "max_seq_length": embedder.preprocessor.sequence_length,
                "preset": FLAGS.preset,
            }
        )
    )


if __name__ == "__main__":
    app.run(main)
