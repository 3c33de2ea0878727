"""Weights over several files: the index is checked against them, and never leads elsewhere."""

import json

import numpy as np
import pytest

safetensors_numpy = pytest.importorskip("safetensors.numpy")

from keras_bert_zoo.checkpoints.tensors import open_tensors

ONE, TWO = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
INDEX = "model.safetensors.index.json"


@pytest.fixture
def folder(tmp_path):
    """A folder with `a` and `b` in the first file and `c` in the second."""
    arrays = {name: np.full((2, 3), ord(name), np.float32) for name in "abc"}
    safetensors_numpy.save_file({name: arrays[name] for name in "ab"}, tmp_path / ONE)
    safetensors_numpy.save_file({"c": arrays["c"]}, tmp_path / TWO)
    write_index(tmp_path, {"a": ONE, "b": ONE, "c": TWO})
    return tmp_path


def write_index(folder, weight_map):
    content = {"metadata": {"total_size": 72}, "weight_map": weight_map}
    (folder / INDEX).write_text(json.dumps(content), encoding="utf-8")


def test_tensors_of_all_files(folder):
    for place in (folder, folder / INDEX):
        with open_tensors(place) as source:
            assert source.layout == "hugging_face"
            assert source.origin == str(folder / INDEX)
            assert source.shapes() == {"a": (2, 3), "b": (2, 3), "c": (2, 3)}
            for name in "acbca":
                np.testing.assert_array_equal(source.read(name), ord(name))
        with pytest.raises(ValueError, match="was closed"):
            source.read("a")


def test_a_tensor_that_the_index_forgot_is_read_too(folder):
    write_index(folder, {"a": ONE, "c": TWO})
    with open_tensors(folder) as source:
        np.testing.assert_array_equal(source.read("b"), ord("b"))


def test_files_may_be_links(folder, tmp_path_factory):
    blob = tmp_path_factory.mktemp("blobs") / "4d7a"
    (folder / TWO).rename(blob)
    (folder / TWO).symlink_to(blob)
    with open_tensors(folder) as source:
        np.testing.assert_array_equal(source.read("c"), ord("c"))
    blob.unlink()
    with pytest.raises(ValueError, match=rf"{TWO} is a link to"):
        open_tensors(folder)


def test_a_missing_file(folder):
    (folder / TWO).unlink()
    with pytest.raises(ValueError, match=rf"lists 2 files, and {TWO} is missing") as caught:
        open_tensors(folder)
    assert str(folder / INDEX) in str(caught.value)


def test_a_file_that_vanishes_later(folder):
    with open_tensors(folder) as source:
        (folder / TWO).unlink()
        with pytest.raises(ValueError, match=f"no file .*{TWO}"):
            source.read("c")


def test_a_damaged_file_is_named(folder):
    (folder / TWO).write_bytes((folder / TWO).read_bytes()[:-4])
    with pytest.raises(ValueError, match=rf"{TWO} is no whole safetensors file"):
        open_tensors(folder)


def test_a_folder_as_a_file(folder):
    (folder / TWO).unlink()
    (folder / TWO).mkdir()
    with pytest.raises(ValueError, match=f"{TWO} is no file"):
        open_tensors(folder)


def test_a_tensor_that_its_file_lacks(folder):
    write_index(folder, {"a": ONE, "b": ONE, "c": TWO, "d": TWO})
    with pytest.raises(ValueError, match=rf"says that 'd' is in {TWO}, and it is not"):
        open_tensors(folder)
    write_index(folder, {"a": ONE, "b": TWO, "c": TWO})
    with pytest.raises(ValueError, match=rf"says that 'b' is in {TWO}, and it is not"):
        open_tensors(folder)


def test_a_tensor_that_two_files_have(folder):
    safetensors_numpy.save_file({"c": np.ones(1), "a": np.ones(1)}, folder / TWO)
    with pytest.raises(ValueError, match=rf"'a' is in both {ONE} and {TWO}"):
        open_tensors(folder)


@pytest.mark.parametrize(
    "name",
    (
        *("../x.safetensors", "/etc/passwd", "a/b.safetensors", "..\\x", "C:\\x", "C:x", "./x"),
        *("", ".", "..", "a\0b", "hf://owner/name", 3, None, ["x"], {}),
    ),
)
def test_an_index_leads_nowhere_else(folder, name):
    (folder.parent / "x.safetensors").write_bytes((folder / TWO).read_bytes())
    write_index(folder, {"a": ONE, "b": ONE, "c": name})
    with pytest.raises(ValueError, match="'c' is in .*no name of a file beside it"):
        open_tensors(folder)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"{", "no index of weights in JSON"),
        (b"\xff\xfe", "no index of weights in JSON"),
        (b"[" * 100_000, "no index of weights in JSON"),
        (b"<html></html>", "no index of weights in JSON"),
        (f'{{"weight_map": {{"a": "{ONE}", "a": "{TWO}"}}}}'.encode(), "'a' is there twice"),
        (b"", "is empty"),
        (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer"),
        (b"[]", 'no "weight_map"'),
        (b"null", 'no "weight_map"'),
        (b"{}", 'no "weight_map"'),
        (b'{"weight_map": null}', 'no "weight_map"'),
        (b'{"weight_map": {}}', 'no "weight_map"'),
        (b'{"weight_map": ["model-00001-of-00002.safetensors"]}', 'no "weight_map"'),
    ],
)
def test_an_index_that_is_none(folder, content, said):
    (folder / INDEX).write_bytes(content)
    with pytest.raises(ValueError, match=said) as caught:
        open_tensors(folder)
    assert str(folder / INDEX) in str(caught.value)
