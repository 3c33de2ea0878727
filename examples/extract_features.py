"""Writes a vector for each line of a text file (feature-based use, arXiv 1810.04805, section 5.3).

python examples/extract_features.py --preset DIR --input_file texts.txt --output_file vectors.npz \\
    --layers -1,-2,-3,-4 --pooling mean

An `.npz` file holds `vectors`, float32 (lines, width), and the settings. A `.tsv` file has the
numbers of a vector in each line. Line by line the output goes with the input: an empty line is an
empty text, and has a vector too. The last line printed is JSON.
"""

import contextlib
import itertools
import json
import os
import pathlib
import time
import zipfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
from absl import app, flags

import keras_bert_zoo as kbz

FLAGS = flags.FLAGS
flags.DEFINE_string("preset", None, "Folder, hf://owner/name, or name of the encoder.")
flags.DEFINE_string("input_file", None, "Text file in UTF-8, one text a line.")
flags.DEFINE_string("output_file", None, "File to write, ending in .npz or .tsv.")
flags.DEFINE_list("layers", ["-1"], "Layers: 0 the embeddings, 1 the first block, -1 the last one.")
flags.DEFINE_enum("combine", "concat", ["concat", "sum"], "How several layers become one.")
flags.DEFINE_enum("pooling", "mean", ["cls", "mean", "max"], "How a text's tokens become one.")
flags.DEFINE_bool("normalize", False, "Whether vectors get length 1.")
flags.DEFINE_integer("max_seq_length", None, "Tokens a text is cut to; the preset's by default.")
flags.DEFINE_integer("batch_size", 32, "Texts a batch.", lower_bound=1)
flags.DEFINE_bool("do_lower_case", None, "Whether to lower-case; as the preset says by default.")
flags.mark_flags_as_required(["preset", "input_file", "output_file"])

CHUNK = 4096  # Lines that are in memory together.


def count_lines(path):
    """Counts the lines of a file; a ValueError names the first one that is not UTF-8."""
    count = 0
    with open(path, "rb") as file:
        for count, line in enumerate(file, 1):
            try:
                text = line.decode("utf-8")
            except UnicodeDecodeError as error:
                raise ValueError(f"{path}, line {count}: not UTF-8 text ({error}).") from error
            if count == 1 and text == "\ufeff":
                return 0  # A byte order mark alone.
    return count


def read_chunks(path):
    """Yields lists of lines without their ends, of which only LF and CR LF are such."""
    with open(path, encoding="utf-8-sig", newline="\n") as file:
        lines = (line.removesuffix("\n").removesuffix("\r") for line in file)
        while chunk := list(itertools.islice(lines, CHUNK)):
            yield chunk


@contextlib.contextmanager
def vector_file(path, shape, settings):
    """Yields a function that writes one chunk of vectors after another.

    The file appears when all are written. Vectors go to disk as they come.
    """
    partial = path.with_name(f".{path.name}.partial")
    try:
        if path.suffix == ".tsv":
            with open(partial, "w", encoding="utf-8", newline="\n") as file:
                yield lambda vectors: np.savetxt(file, vectors, fmt="%.8g", delimiter="\t")
        else:
            names = {"descr": "<f4", "fortran_order": False, "shape": shape}
            with zipfile.ZipFile(partial, "w") as archive:
                for name, value in settings.items():
                    with archive.open(f"{name}.npy", "w") as file:
                        np.lib.format.write_array(file, np.asarray(value))
                with archive.open("vectors.npy", "w", force_zip64=True) as file:
                    np.lib.format.write_array_header_1_0(file, names)
                    yield lambda vectors: file.write(vectors.astype("<f4").tobytes())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def main(_):
    output = pathlib.Path(FLAGS.output_file)
    if output.suffix not in (".npz", ".tsv") or output.is_dir():
        raise app.UsageError(f"--output_file must be a file that ends in .npz or .tsv: {output}")
    if not os.path.isfile(FLAGS.input_file):  # It is read twice, so it cannot be a pipe.
        raise app.UsageError(f"--input_file is no file: {FLAGS.input_file}")
    try:
        layers = [int(layer) for layer in FLAGS.layers]
    except ValueError:
        raise app.UsageError(f"--layers are whole numbers. Received: {FLAGS.layers}") from None
    count = count_lines(FLAGS.input_file)
    embedder = kbz.TextEmbedder.from_preset(
        FLAGS.preset,
        lowercase=FLAGS.do_lower_case,
        sequence_length=FLAGS.max_seq_length,
        pooling=FLAGS.pooling,
        normalize=FLAGS.normalize,
        layers=layers,
        combine=FLAGS.combine,
    )
    if embedder.preprocessor is None:
        raise ValueError(f"{FLAGS.preset} has no vocabulary, so its model cannot read texts.")
    output.parent.mkdir(parents=True, exist_ok=True)
    settings = {
        "layers": layers,
        "combine": FLAGS.combine,
        "pooling": FLAGS.pooling,
        "normalize": FLAGS.normalize,
    }
    width = embedder.output.shape[1]
    bar = keras.utils.Progbar(count, unit_name="text")
    start = time.perf_counter()
    with vector_file(output, (count, width), settings) as write:
        done = 0
        for chunk in read_chunks(FLAGS.input_file):
            write(embedder.embed(chunk, batch_size=FLAGS.batch_size, verbose=0))
            bar.add(len(chunk))
            done += len(chunk)
        if done != count:
            raise ValueError(f"{FLAGS.input_file} changed while it was read: nothing was written.")
    seconds = time.perf_counter() - start
    print(
        json.dumps(
            {
                "texts": count,
                "width": width,
                "texts_per_second": round(count / max(seconds, 1e-9), 1),
                "output_file": str(output),
                **settings,
            }
        )
    )


if __name__ == "__main__":
    app.run(main)
