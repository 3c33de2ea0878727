"""PyTorch's own files: read as torch reads them, without running anything, in little memory."""

import json
import os
import pickle
import zipfile

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from keras_bert_zoo.checkpoints import source as sources
from keras_bert_zoo.checkpoints.tensors import open_tensors

FORMATS = pytest.mark.parametrize("is_zip", [True, False], ids=["zip", "legacy"])


def save(content, path, is_zip=True):
    torch.save(content, path, _use_new_zipfile_serialization=is_zip)
    return path


def state():
    generator = torch.Generator().manual_seed(0)
    table = torch.randn(50, 8, generator=generator)
    return {
        "module.table": table,
        "module.decoder": table,  # Tied: the same storage.
        "transposed": torch.randn(6, 30, generator=generator).T,
        "parameter": torch.nn.Parameter(torch.ones(3)),
        "scalar": torch.tensor(2.5),
        "empty": torch.zeros(0, 4),
        "half": torch.tensor([1.5, -2.25]).half(),
        "bfloat16": torch.tensor([1.5, -2.25]).bfloat16(),
        "double": torch.tensor([0.1]).double(),
        "position_ids": torch.arange(4)[None],
        "mask": torch.tensor([True, False]),
    }


@FORMATS
@pytest.mark.parametrize("wrapper", [None, "state_dict", "model"])
def test_tensors_are_those_of_torch(tmp_path, monkeypatch, is_zip, wrapper):
    monkeypatch.setattr(sources, "_PIECE", 200)
    monkeypatch.setattr(sources, "_WINDOW", 500)
    given = state()
    content = {wrapper: given, "epoch": 3} if wrapper else given
    save(content, tmp_path / "pytorch_model.bin", is_zip)
    with open_tensors(tmp_path) as source:
        assert source.layout == "hugging_face"
        assert source.shapes() == {name: tuple(tensor.shape) for name, tensor in given.items()}
        for name, tensor in given.items():
            read = source.read(name)
            wanted = tensor.detach()
            wanted = (wanted.float() if wanted.is_floating_point() else wanted).numpy()
            assert read.dtype == wanted.dtype
            np.testing.assert_array_equal(read, wanted)
            assert read.flags.owndata and read.flags.writeable


@FORMATS
def test_an_array_is_the_callers_own(tmp_path, is_zip):
    path = save({"a": torch.ones(3)}, tmp_path / "x.pt", is_zip)
    with open_tensors(path) as source:
        first = source.read("a")
        first += 1
        np.testing.assert_array_equal(source.read("a"), 1)


@FORMATS
def test_a_file_that_would_run_code_does_not(tmp_path, is_zip):
    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "ran"),)

    path = save({"a": torch.ones(1), "b": Evil()}, tmp_path / "pytorch_model.bin", is_zip)
    with pytest.raises(ValueError, match=r"unpickling it would call \w+\.mkdir") as caught:
        open_tensors(tmp_path)
    assert str(path) in str(caught.value)
    assert "weights_only" not in str(caught.value)  # Torch's advice to load it all the same.
    assert not (tmp_path / "ran").exists()
    torch.load(path, weights_only=False)
    assert (tmp_path / "ran").exists()  # The file does what the test says it would.


def test_a_plain_pickle_that_would_run_code_does_not(tmp_path):
    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "ran"),)

    (tmp_path / "x.bin").write_bytes(pickle.dumps({"a": Evil()}, protocol=2))
    with pytest.raises(ValueError):
        open_tensors(tmp_path / "x.bin")
    assert not (tmp_path / "ran").exists()


@FORMATS
def test_a_whole_module_is_refused(tmp_path, is_zip):
    save(torch.nn.Linear(2, 2), tmp_path / "x.bin", is_zip)
    with pytest.raises(ValueError, match=r"would call torch\.nn\.\S+.*model\.state_dict\(\)"):
        open_tensors(tmp_path / "x.bin")


@FORMATS
@pytest.mark.parametrize("share", [0.0, 0.02, 0.1, 0.5, 0.9, 0.999])
def test_a_file_that_is_cut(tmp_path, is_zip, share):
    path = save({f"w{n}": torch.ones(100) for n in range(5)}, tmp_path / "x.bin", is_zip)
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ValueError, match=r"x\.bin is (empty|no whole file).*fetch it again"):
        open_tensors(path)


@pytest.mark.parametrize(
    "content",
    [
        b"<html>404</html>" * 9,
        b"\x80\x02}q\x00.",
        pickle.dumps({"a": 1}),
        bytes(100),
        b"PK\x03\x04",
    ],
)
def test_a_file_that_is_something_else(tmp_path, content):
    (tmp_path / "x.bin").write_bytes(content)
    with pytest.raises(ValueError, match=r"x\.bin is no whole file of torch\.save") as caught:
        open_tensors(tmp_path / "x.bin")
    assert len(str(caught.value)) < 400


def test_another_zip(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.bin", "w") as file:
        file.writestr("hello", "world")
    with pytest.raises(ValueError, match=r"x\.bin is no whole file of torch\.save"):
        open_tensors(tmp_path / "x.bin")


@pytest.mark.filterwarnings("ignore")
def test_a_program(tmp_path):
    torch.jit.trace(torch.nn.Linear(2, 2), torch.ones(1, 2)).save(tmp_path / "x.pt")
    with pytest.raises(ValueError, match="is a TorchScript program"):
        open_tensors(tmp_path / "x.pt")


@FORMATS
@pytest.mark.parametrize(
    ("content", "said"),
    [
        ([torch.ones(1)], "a list"),
        (torch.ones(1), "a Tensor"),
        ({}, "a dict with nothing in it"),
        ({"epoch": 3, "loss": 0.5}, "a dict with 'epoch', 'loss'"),
        ({"state_dict": {"epoch": 3}}, "a dict with 'state_dict'"),
        ({0: torch.ones(1)}, "a dict with 0"),
        (None, "a NoneType"),
    ],
)
def test_content_that_is_no_dict_of_tensors(tmp_path, is_zip, content, said):
    save(content, tmp_path / "x.bin", is_zip)
    with pytest.raises(ValueError, match=f"no dict of tensors but {said}"):
        open_tensors(tmp_path / "x.bin")


def test_odd_tensors_are_refused_when_they_are_wanted(tmp_path):
    content = {
        "float": torch.ones(2),
        "int8": torch.ones(2, dtype=torch.int8),
        "float8_e4m3fn": torch.ones(2).to(torch.float8_e4m3fn),
        "float32 sparse_coo": torch.eye(2).to_sparse(),
        "float32 on device meta": torch.ones(2, device="meta"),
        "complex64": torch.ones(2, dtype=torch.complex64),
    }
    save(content, tmp_path / "x.bin")
    with open_tensors(tmp_path / "x.bin") as source:
        assert source.shapes().keys() == content.keys()
        np.testing.assert_array_equal(source.read("float"), 1)
        for name in content.keys() - {"float"}:
            with pytest.raises(ValueError, match=f"is stored as {name}\\."):
                source.read(name)


def test_several_files(tmp_path):
    one, two = "pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin"
    save({"a": torch.ones(2)}, tmp_path / one)
    save({"b": torch.ones(3)}, tmp_path / two, is_zip=False)
    index = tmp_path / "pytorch_model.bin.index.json"
    index.write_text(json.dumps({"weight_map": {"a": one, "b": two}}))
    with open_tensors(tmp_path) as source:
        assert source.shapes() == {"a": (2,), "b": (3,)}
        np.testing.assert_array_equal(source.read("b"), np.ones(3))
        np.testing.assert_array_equal(source.read("a"), np.ones(2))
    index.write_text(json.dumps({"weight_map": {"a": two, "b": two}}))
    with pytest.raises(ValueError, match=f"says that 'a' is in {two}, and it is not"):
        open_tensors(tmp_path)


def test_a_file_that_vanishes_between_two_tensors(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "_WINDOW", 8)
    path = save({"a": torch.ones(2), "b": torch.ones(2)}, tmp_path / "x.bin")
    with open_tensors(path) as source:
        source.read("a")
        path.unlink()
        with pytest.raises(ValueError, match="There is no file"):
            source.read("b")


MEASURE = """
import sys, torch
from keras_bert_zoo.checkpoints.tensors import open_tensors

def memory(what):
    for line in open("/proc/self/status"):
        if line.startswith(what):
            return int(line.split()[1]) / 1024

open_tensors(sys.argv[1]).close()  # What torch loads once is not counted.
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")
before, numbers = memory("VmRSS"), 0
with open_tensors(sys.argv[2]) as source:
    for name in source.shapes():
        numbers += source.read(name).size
print(numbers, memory("VmHWM") - before)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/clear_refs"), reason="needs /proc")
def test_the_peak_is_that_of_one_tensor(tmp_path, run_python):
    small = save({"a": torch.ones(1)}, tmp_path / "small.bin")
    content = {"table": torch.zeros(16384, 1024)}  # 64 MB, and 192 MB of others.
    content |= {str(n): torch.zeros(3072, 1024) for n in range(16)}
    large = save(content, tmp_path / "large.bin")
    read, peak = run_python(MEASURE, small, large).split()
    assert int(read) == sum(tensor.numel() for tensor in content.values())
    assert float(peak) < 110
