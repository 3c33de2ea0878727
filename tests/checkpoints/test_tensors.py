"""Which weights of a folder are read, and what is said where there are none."""

import json

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_zoo.checkpoints import source as sources
from keras_bert_zoo.checkpoints.tensors import TensorSource, open_tensors


def add_checkpoint(folder, name="bert_model.ckpt"):
    tf.raw_ops.SaveV2(
        prefix=str(folder / name),
        tensor_names=["tensorflow"],
        shape_and_slices=[""],
        tensors=[tf.ones(2)],
    )


def test_the_order_of_choice(tmp_path):
    save_file = pytest.importorskip("safetensors.numpy").save_file
    (tmp_path / "config.json").write_text("{}")
    add_checkpoint(tmp_path)
    with open_tensors(tmp_path) as source:
        assert isinstance(source, TensorSource)
        assert list(source.shapes()) == ["tensorflow"]
    (tmp_path / "pytorch_model.bin.index.json").write_text("{}")
    with pytest.raises(ValueError, match=r"pytorch_model\.bin\.index\.json has no"):
        open_tensors(tmp_path)
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(ValueError, match=r"pytorch_model\.bin is empty"):
        open_tensors(tmp_path)
    save_file({"shard": np.ones(1, np.float32)}, tmp_path / "shard.safetensors")
    (tmp_path / "model.safetensors.index.json").write_text(
        json.dumps({"weight_map": {"shard": "shard.safetensors"}})
    )
    with open_tensors(tmp_path) as source:
        assert list(source.shapes()) == ["shard"]
    save_file({"one": np.ones(1, np.float32)}, tmp_path / "model.safetensors")
    with open_tensors(str(tmp_path)) as source:
        assert list(source.shapes()) == ["one"]


def test_a_folder_without_weights_lists_what_is_there(tmp_path):
    with pytest.raises(ValueError, match="there is nothing") as caught:
        open_tensors(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "vocab.txt").write_text("[PAD]\n")
    with pytest.raises(ValueError, match=r"there is config\.json, vocab\.txt\.$") as caught:
        open_tensors(tmp_path)
    for name in ("model.safetensors", "pytorch_model.bin", "*.index", str(tmp_path)):
        assert name in str(caught.value)


def test_a_long_list_is_cut(tmp_path):
    for number in range(100):
        (tmp_path / f"{number:03}.txt").touch()
    with pytest.raises(ValueError, match=r"018\.txt, 019\.txt, \.\.\.\."):
        open_tensors(tmp_path)


@pytest.mark.parametrize(
    "name", ["tf_model.h5", "flax_model.msgpack", "model.onnx", "saved_model.pb", "model.gguf"]
)
def test_weights_of_others_are_named_as_not_read(tmp_path, name):
    (tmp_path / name).write_bytes(b"x")
    for place in (tmp_path, tmp_path / name):
        with pytest.raises(ValueError, match=rf"Not read: {name} \(by .*model\.safetensors"):
            open_tensors(place)


@pytest.mark.parametrize(
    "name", ["none", "none/", "none.safetensors", "none.bin", "none.index", "a\0b", "x" * 300]
)
def test_what_is_not_there(tmp_path, name):
    with pytest.raises(ValueError):
        open_tensors(f"{tmp_path}/{name}")
    with pytest.raises(ValueError, match="no file .*none"):
        open_tensors(tmp_path / "none")


@pytest.mark.parametrize("path", [None, "", 3, b"", ["folder"]])
def test_what_is_no_path(path):
    with pytest.raises(ValueError, match="Received"):
        open_tensors(path)


def test_a_file_of_another_kind(tmp_path):
    (tmp_path / "vocab.txt").write_text("[PAD]\n")
    with pytest.raises(ValueError, match=r"vocab\.txt is no file of weights.*\.safetensors"):
        open_tensors(tmp_path / "vocab.txt")


def test_a_folder_that_may_not_be_read(tmp_path, monkeypatch):
    def forbidden(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(sources.os, "listdir", forbidden)
    with pytest.raises(ValueError, match=r"The folder .* cannot be read \(Permission denied\)"):
        open_tensors(tmp_path)


def test_a_pickle_without_torch(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    (tmp_path / "pytorch_model.bin").write_bytes(b"PK\x03\x04")
    with pytest.raises(ImportError, match=r"pip install 'keras-bert-zoo\[torch\]'") as caught:
        open_tensors(tmp_path)
    for words in ("is a pickle", "weights_only=True", "never by plain pickle", "model.safetensors"):
        assert words in str(caught.value)


def test_a_torch_that_may_run_code(tmp_path, monkeypatch):
    class Old:
        __version__ = "2.5.1+cpu"

    monkeypatch.setitem(__import__("sys").modules, "torch", Old)
    (tmp_path / "pytorch_model.bin").write_bytes(b"PK\x03\x04")
    with pytest.raises(ImportError, match=r"PyTorch 2\.5\.1\+cpu may run code"):
        open_tensors(tmp_path)
