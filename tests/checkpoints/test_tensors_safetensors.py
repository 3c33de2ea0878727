"""Reading .safetensors: types, ownership, and what is said of files that are not whole."""

import json
import os
import sys

import ml_dtypes
import numpy as np
import pytest

safetensors_numpy = pytest.importorskip("safetensors.numpy")

from keras_bert_zoo.checkpoints import source as sources
from keras_bert_zoo.checkpoints.tensors import open_tensors

HEADER = {
    "a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
    "b": {"dtype": "F32", "shape": [4], "data_offsets": [24, 40]},
}


def raw(header, data=bytes(40)):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def changed(name, **fields):
    return HEADER | {name: HEADER[name] | fields}


def write(path, content):
    path.write_bytes(content)
    return path


def test_tensors_come_back_by_name(tmp_path):
    rng = np.random.default_rng(0)
    given = {
        "module.encoder.weight": rng.standard_normal((5, 7), dtype=np.float32),
        "scalar": np.array(3, np.float32),
        "empty": np.zeros((0, 4), np.float32),
        "position_ids": np.arange(8).reshape(1, 8),
        "ids": np.arange(3, dtype=np.int32),
        "mask": np.array([True, False]),
    }
    safetensors_numpy.save_file(given, tmp_path / "x.safetensors")
    with open_tensors(tmp_path / "x.safetensors") as source:
        assert source.layout == "hugging_face"
        assert source.origin == str(tmp_path / "x.safetensors")
        assert source.shapes() == {name: array.shape for name, array in given.items()}
        assert all(type(size) is int for shape in source.shapes().values() for size in shape)
        for name, array in given.items():
            read = source.read(name)
            assert read.dtype == array.dtype
            np.testing.assert_array_equal(read, array)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float64])
def test_floats_of_other_widths_come_as_float32(tmp_path, dtype):
    given = np.array([[1.5, -2.25], [0.1, 3e4]]).astype(dtype)
    safetensors_numpy.save_file({"a": given}, tmp_path / "x.safetensors")
    with open_tensors(tmp_path / "x.safetensors") as source:
        read = source.read("a")
    assert read.dtype == np.float32
    np.testing.assert_array_equal(read, given.astype(np.float32))


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("shape", [(1000,), (37, 11), (6, 5, 4), (1, 300), (300, 1)])
def test_pieces_and_windows_of_any_size_give_the_same(tmp_path, monkeypatch, dtype, shape):
    given = np.random.default_rng(1).standard_normal(shape, dtype=np.float32).astype(dtype)
    safetensors_numpy.save_file({"a": given, "b": given + given}, tmp_path / "x.safetensors")
    monkeypatch.setattr(sources, "_PIECE", 100)
    monkeypatch.setattr(sources, "_WINDOW", 250)
    with open_tensors(tmp_path / "x.safetensors") as source:
        for _ in range(2):
            np.testing.assert_array_equal(source.read("a"), given.astype(np.float32))
            np.testing.assert_array_equal(source.read("b"), (given + given).astype(np.float32))


def test_an_array_is_the_callers_own(tmp_path):
    path = tmp_path / "x.safetensors"
    safetensors_numpy.save_file({"a": np.ones((300, 300), np.float32)}, path)
    with open_tensors(path) as source:
        first = source.read("a")
        first += 1
        np.testing.assert_array_equal(source.read("a"), 1)
    path.write_bytes(b"")  # A view into the file would now be a bus error.
    np.testing.assert_array_equal(first, 2)


def test_a_closed_source_and_an_unknown_name(tmp_path):
    safetensors_numpy.save_file({"bert.weight": np.ones(2, np.float32)}, tmp_path / "x.safetensors")
    source = open_tensors(tmp_path / "x.safetensors")
    with pytest.raises(ValueError, match=r"no tensor 'bert\.weights'.*bert\.weight$"):
        source.read("bert.weights")
    source.close()
    source.close()
    with pytest.raises(ValueError, match="was closed"):
        source.read("bert.weight")


@pytest.mark.parametrize(
    ("dtype", "size"), [("I8", 1), ("U8", 1), ("F8_E4M3", 1), ("F8_E5M2", 1), ("I16", 2)]
)
def test_quantised_weights_are_refused_when_they_are_wanted(tmp_path, dtype, size):
    header = {
        "float": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
        "odd": {"dtype": dtype, "shape": [4], "data_offsets": [8, 8 + 4 * size]},
    }
    path = write(tmp_path / "x.safetensors", raw(header, bytes(8 + 4 * size)))
    with open_tensors(path) as source:
        assert source.shapes() == {"float": (2,), "odd": (4,)}
        assert source.read("float").dtype == np.float32
        with pytest.raises(ValueError, match=f"'odd' of .*x.safetensors is stored as {dtype}"):
            source.read("odd")


WHOLE = raw(HEADER)
LENGTH = len(WHOLE) - 48


@pytest.mark.parametrize(
    "content",
    {
        "no whole length": WHOLE[:5],
        "length alone": WHOLE[:8],
        "header cut": WHOLE[: 8 + LENGTH // 2],
        "no data": WHOLE[: 8 + LENGTH],
        "data cut": WHOLE[:-1],
        "data too long": WHOLE + b"\0",
        "length of 2**60": (2**60).to_bytes(8, "little") + WHOLE[8:],
        "length of 2**64 - 1": b"\xff" * 8 + WHOLE[8:],
        "length of 0": bytes(8) + WHOLE[8:],
        "no JSON": raw(b"hello world"),
        "no UTF-8": raw(b'{"\xff": 1}'),
        "a list": raw([HEADER]),
        "an entry that is no object": raw({"a": 3}),
        "overlap": raw(changed("b", data_offsets=[20, 36])),
        "same bytes": raw(changed("b", shape=[2, 3], data_offsets=[0, 24])),
        "gap": raw(changed("b", data_offsets=[28, 44]), bytes(44)),
        "beyond the end": raw(changed("b", shape=[10**9], data_offsets=[24, 24 + 4 * 10**9])),
        "backwards": raw(changed("a", data_offsets=[24, 0])),
        "negative": raw(changed("a", data_offsets=[-24, 0])),
        "another size": raw(changed("a", shape=[2, 2])),
        "a negative shape": raw(changed("a", shape=[-2, -3])),
        "a shape that overflows": raw(changed("a", shape=[2**32, 2**32])),
        "an unknown type": raw(changed("a", dtype="F33")),
        "a name twice": raw(json.dumps(HEADER).replace('"b"', '"a"').encode()),
        "a page of the web": b"<!doctype html><title>404</title>" * 9,
    }.items(),
    ids=lambda case: case[0],
)
def test_a_damaged_file_is_named_with_what_would_do(tmp_path, content):
    path = write(tmp_path / "model.safetensors", content[1])
    with pytest.raises(ValueError, match="no whole safetensors file") as caught:
        open_tensors(path)
    assert str(path) in str(caught.value)
    assert "fetch it again" in str(caught.value)


def test_the_whole_file_of_those_cases_is_read(tmp_path):
    with open_tensors(write(tmp_path / "x.safetensors", WHOLE)) as source:
        assert source.shapes() == {"a": (2, 3), "b": (4,)}


@pytest.mark.parametrize("framework", ["tf", "flax"])
def test_names_of_other_frameworks_are_refused(tmp_path, framework):
    safetensors_numpy.save_file(
        {"a": np.ones(1, np.float32)}, tmp_path / "x.safetensors", {"format": framework}
    )
    with pytest.raises(ValueError, match=f"written by the {framework} classes"):
        open_tensors(tmp_path / "x.safetensors")


def test_an_empty_file(tmp_path):
    with pytest.raises(ValueError, match=r"model\.safetensors is empty.*fetch it again"):
        open_tensors(write(tmp_path / "model.safetensors", b""))


def test_a_pointer_of_git_lfs(tmp_path):
    text = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 440449768\n"
    path = write(tmp_path / "model.safetensors", text.encode())
    for place in (path, tmp_path):
        with pytest.raises(ValueError, match="Git LFS pointer.*git lfs pull"):
            open_tensors(place)


def test_a_folder_in_place_of_the_file(tmp_path):
    (tmp_path / "model.safetensors").mkdir()
    with pytest.raises(ValueError, match=r"model\.safetensors is no file"):
        open_tensors(tmp_path)


def test_links_are_followed_and_a_broken_one_is_told(tmp_path):
    blob, snapshot = tmp_path / "blobs" / "4d7a", tmp_path / "snapshots" / "main"
    blob.parent.mkdir()
    snapshot.mkdir(parents=True)
    safetensors_numpy.save_file({"a": np.ones(3, np.float32)}, blob)
    (snapshot / "model.safetensors").symlink_to(os.path.join("..", "..", "blobs", "4d7a"))
    with open_tensors(snapshot) as source:
        np.testing.assert_array_equal(source.read("a"), 1)
    blob.unlink()
    with pytest.raises(ValueError, match=r"is a link to .*4d7a, which is not there"):
        open_tensors(snapshot)


def test_a_file_that_vanishes_or_changes_between_two_tensors(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "_WINDOW", 16)
    path = tmp_path / "x.safetensors"
    given = {"a": np.ones(4, np.float32), "b": np.ones(4, np.float32)}
    for change, said in (
        (path.unlink, "There is no file"),
        (lambda: safetensors_numpy.save_file(given | {"c": np.ones(1)}, path), "was written to"),
    ):
        safetensors_numpy.save_file(given, path)
        with open_tensors(path) as source:
            source.read("a")
            change()
            with pytest.raises(ValueError, match=said):
                source.read("b")


def test_a_file_that_may_not_be_read(tmp_path, monkeypatch):
    path = tmp_path / "x.safetensors"
    safetensors_numpy.save_file({"a": np.ones(1, np.float32)}, path)

    def forbidden(*arguments, **kwargs):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(sources, "open", forbidden, raising=False)
    with pytest.raises(ValueError, match=r"x\.safetensors cannot be read \(Permission denied\)"):
        open_tensors(path)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root reads all")
def test_rights_that_are_really_missing(tmp_path):
    path = tmp_path / "x.safetensors"
    safetensors_numpy.save_file({"a": np.ones(1, np.float32)}, path)
    path.chmod(0)
    with pytest.raises(ValueError, match="cannot be read"):
        open_tensors(path)


def test_without_the_package(tmp_path, monkeypatch):
    path = write(tmp_path / "model.safetensors", WHOLE)
    monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(ImportError, match=r"pip install 'keras-bert-zoo\[hub\]'"):
        open_tensors(path)
