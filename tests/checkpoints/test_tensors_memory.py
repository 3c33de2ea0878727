"""A large file needs memory for one tensor, not for all."""

import json
import pathlib

import pytest

pytest.importorskip("safetensors")

MEASURE = """
import sys
from keras_bert_zoo.checkpoints.tensors import open_tensors

def memory(what):
    for line in open("/proc/self/status"):
        if line.startswith(what):
            return int(line.split()[1]) / 1024

for path in sys.argv[1:]:
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # The peak is counted anew.
    before, numbers = memory("VmRSS"), 0
    with open_tensors(path) as source:
        for name in source.shapes():
            numbers += source.read(name).size
    print(numbers, memory("VmHWM") - before)
"""
MEGABYTE = 1 << 20


def write(path, dtype, width, numbers):
    """Writes tensors of zeros as a sparse file, which takes no time and no space on the disk."""
    header, end = {}, 0
    for name, size in numbers.items():
        header[name] = {"dtype": dtype, "shape": [size // 1024, 1024]}
        header[name]["data_offsets"] = [end, end + size * width]
        end += size * width
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + end)


@pytest.mark.skipif(not pathlib.Path("/proc/self/clear_refs").exists(), reason="needs /proc")
def test_the_peak_is_that_of_one_tensor(tmp_path, run_python):
    """Of 256 MB in 17 tensors, of 64 MB the largest: 64 MB and what is mapped at a time."""
    numbers = {"table": 16 * MEGABYTE} | {str(n): 3 * MEGABYTE for n in range(16)}
    paths = []
    for dtype, width in (("F32", 4), ("BF16", 2)):
        paths.append(tmp_path / f"{dtype}.safetensors")
        write(paths[-1], dtype, width, numbers)
    for line in run_python(MEASURE, *paths).splitlines():
        read, peak = line.split()
        assert int(read) == sum(numbers.values())
        assert float(peak) < 100
