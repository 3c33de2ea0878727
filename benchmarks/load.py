"""Time and memory of loading a BERT: ours, `transformers`, KerasHub, and reading the bytes alone.

    python benchmarks/load.py [--folder=DIR] [--repeats=3] [--formats=float16 --formats=google ...]

Each loads the same Hugging Face folder, in a process of its own that has imported all it needs, in
alternating runs and from a warm file cache. Without `--folder` it is a bert_base of random weights.
Memory is that of the process over what it was before. `transformers` maps the file and reads a
weight when it is first used, so figures with the first output are given too. The last line is JSON.
"""

import contextlib
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
from absl import app, flags

FORMATS = ("float16", "bfloat16", "google", "torch")
FLAGS = flags.FLAGS
flags.DEFINE_string("folder", None, "A Hugging Face folder of a BERT; a random bert_base if none.")
flags.DEFINE_integer("repeats", 3, "Timed runs of each.", lower_bound=1)
flags.DEFINE_multi_enum(
    "formats",
    [],
    FORMATS,
    "Other forms that ours loads the weights from too: safetensors of half width, a TF1 "
    "checkpoint, a .bin file.",
)
flags.DEFINE_string("job", None, "What a process of its own is to do; for the script's own use.")


def ours():
    import safetensors.numpy  # noqa: F401

    import keras_bert_zoo as kbz

    def output(model, ids):
        return np.asarray(model(ids)["pooled_output"])

    return kbz.BertEncoder.from_preset, output, _keras_bytes


def ours_of_torch():
    import torch  # noqa: F401

    return ours()


def transformers():
    import torch
    from transformers import BertModel
    from transformers.utils import logging

    logging.disable_progress_bar()

    def output(model, ids):
        with torch.no_grad():
            names = ("input_ids", "token_type_ids", "attention_mask")
            tensors = map(torch.from_numpy, ids.values())
            return model(**dict(zip(names, tensors, strict=True))).pooler_output.numpy()

    def size(model):
        return sum(weight.nbytes for weight in model.parameters())

    return BertModel.from_pretrained, output, size


def keras_hub():
    import keras_hub

    def output(model, ids):
        return np.asarray(model(ids)["pooled_output"])

    return keras_hub.models.BertBackbone.from_preset, output, _keras_bytes


COMPARED = (ours, transformers, keras_hub)
LOADERS = {loader.__name__: loader for loader in (*COMPARED, ours_of_torch)}


def _keras_bytes(model):
    return sum(np.dtype(w.dtype).itemsize * np.prod(w.shape) for w in model.trainable_weights)


def measure(loader, folder):
    """Loads once, and gives seconds, megabytes and the first output."""
    try:
        load, output, size = LOADERS[loader]()
    except ImportError as error:
        return {"not_installed": error.name}
    row = np.arange(8, dtype="int64")[None]
    ids = {"token_ids": row, "segment_ids": row * 0, "padding_mask": row * 0 + 1}
    # The peak is counted anew where the system can do so.
    with contextlib.suppress(OSError):
        pathlib.Path("/proc/self/clear_refs").write_text("5")
    before = _megabytes("VmRSS")
    clock, cpu = time.perf_counter(), time.process_time()
    model = load(folder)
    seconds, cpu = time.perf_counter() - clock, time.process_time() - cpu
    peak = _megabytes("VmHWM") - before
    pooled = output(model, ids)
    return {
        "seconds": seconds,
        "cpu_seconds": cpu,
        "peak_mb": peak,
        "first_output_seconds": time.perf_counter() - clock,
        "first_output_peak_mb": _megabytes("VmHWM") - before,
        "model_mb": size(model) / 1e6,
        "output": pooled[0].tolist(),
    }


def _megabytes(entry):
    """An entry of Linux's table of this process; elsewhere the highest memory it ever had."""
    with contextlib.suppress(OSError):
        for line in pathlib.Path("/proc/self/status").read_text().splitlines():
            if line.startswith(entry):
                return int(line.split()[1]) * 1024 / 1e6
    highest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return highest * (1 if sys.platform == "darwin" else 1024) / 1e6


def read(folder):
    """Reads the bytes of the weights, and keeps none."""
    folder, buffer = pathlib.Path(folder), bytearray(1 << 24)
    kinds = ("*.safetensors", "*.bin", "*.data-*")
    files = next(found for kind in kinds if (found := sorted(folder.glob(kind))))
    start = time.perf_counter()
    for path in files:
        with open(path, "rb", buffering=0) as file:
            while file.readinto(buffer):
                pass
    return {"seconds": time.perf_counter() - start}


def write_random(folder):
    import keras_bert_zoo as kbz

    encoder = kbz.BertEncoder.from_preset("bert_base_uncased", load_weights=False)
    encoder.save_to_preset(folder)


def write_format(name, folder, target):
    """Writes the weights of a folder in another form."""
    import ml_dtypes
    from safetensors.numpy import save_file

    from keras_bert_zoo.checkpoints.tensors import open_tensors

    folder, target = pathlib.Path(folder), pathlib.Path(target)
    target.mkdir()
    (target / "config.json").write_bytes((folder / "config.json").read_bytes())
    with open_tensors(folder) as source:
        weights = {name: source.read(name) for name in source.shapes()}
    if name in ("float16", "bfloat16"):
        kind = np.float16 if name == "float16" else ml_dtypes.bfloat16
        weights = {name: value.astype(kind) for name, value in weights.items()}
        save_file(weights, target / "model.safetensors", {"format": "pt"})
    elif name == "torch":
        import torch

        weights = {name: torch.from_numpy(value) for name, value in weights.items()}
        torch.save(weights, target / "pytorch_model.bin")
    else:
        _write_google(weights, target)


def _write_google(weights, target):
    import tensorflow as tf

    from keras_bert_zoo.checkpoints.arrays import is_transposed
    from keras_bert_zoo.checkpoints.names import cleaned, name_pairs

    stored, named = cleaned("hugging_face", weights, 0), {}
    # As many blocks as there can be: those that are not there are passed over.
    layouts = (name_pairs(layout, 99) for layout in ("hugging_face", "google"))
    for theirs, google in zip(*layouts, strict=True):
        for name, other in zip(theirs.theirs, google.theirs, strict=True):
            if name in stored and google.part in ("encoder", "pooler"):
                value = weights[stored[name]]
                turned = is_transposed("hugging_face", theirs.ours, name)
                named[f"bert/{other}"] = value.T if turned else value
    tf.raw_ops.SaveV2(
        prefix=str(target / "bert_model.ckpt"),
        tensor_names=list(named),
        shape_and_slices=[""] * len(named),
        tensors=[tf.constant(value) for value in named.values()],
    )


JOBS = {"read": read, "write": write_random, "write_format": write_format, "measure": measure}


def _run(job, *arguments):
    """Does a job in a process of its own."""
    command = [sys.executable, __file__, f"--job={job}", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{job} {' '.join(map(str, arguments))} failed:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def _summary(runs):
    """Medians of the times, and the highest peaks."""
    found = {}
    for name in ("seconds", "cpu_seconds", "first_output_seconds"):
        found[name] = round(statistics.median(run[name] for run in runs), 2)
    for name in ("peak_mb", "first_output_peak_mb", "model_mb"):
        found[name] = round(max(run[name] for run in runs), 1)
    found["over_model_mb"] = round(found["peak_mb"] - found["model_mb"], 1)
    return found


def _compare(folder, scratch):
    plan = {loader.__name__: (loader.__name__, folder) for loader in COMPARED}
    for name in FLAGS.formats:
        _run("write_format", name, folder, scratch / name)
        loader = ours_of_torch if name == "torch" else ours
        plan[f"ours_{name}"] = (loader.__name__, scratch / name)
    runs, reads = {name: [] for name in plan}, []
    _run("read", folder)  # Warms the cache.
    for _ in range(FLAGS.repeats):
        reads.append(_run("read", folder)["seconds"])
        for name, arguments in list(plan.items()):
            run = _run("measure", *arguments)
            if "not_installed" in run:
                print(f"{name} is left out: {run['not_installed']} is not installed.")
                del plan[name]
            else:
                runs[name].append(run)

    result = {name: _summary(found) for name, found in runs.items() if found}
    heads = ("load s", "CPU s", "peak MB", "over model", "output s", "peak MB")
    print(f"{'':14}", *(f"{head:>10}" for head in heads), f"{'differs by':>10}")
    for name, found in result.items():
        outputs = [runs[one][0]["output"] for one in ("ours", name)]
        found["output_differs_by"] = float(np.max(np.abs(np.subtract(*outputs))))
        columns = [found[key] for key in ("seconds", "cpu_seconds", "peak_mb", "over_model_mb")]
        columns += [found["first_output_seconds"], found["first_output_peak_mb"]]
        cells = (f"{column:10.2f}" if column < 20 else f"{column:10.0f}" for column in columns)
        print(f"{name:14}", *cells, f"{found['output_differs_by']:10.0e}")
    reading = statistics.median(reads)
    print(f"{'reading alone':14} {reading:10.2f}")
    result["read_seconds"] = round(reading, 2)
    result["ours_minus_read_seconds"] = round(result["ours"]["seconds"] - reading, 2)
    print(json.dumps(result))


def main(arguments):
    if FLAGS.job:
        print(json.dumps(JOBS[FLAGS.job](*arguments[1:])))
        return
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        folder = FLAGS.folder or scratch / "bert_base"
        if not FLAGS.folder:
            _run("write", folder)
        _compare(folder, scratch)


if __name__ == "__main__":
    app.run(main)
