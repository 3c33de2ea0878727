"""Reading TensorFlow checkpoints by name and by object, and what is said of broken ones."""

import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_zoo.checkpoints.tensors import open_tensors

NAMES = {
    "bert/embeddings/word_embeddings": (11, 4),
    "bert/encoder/layer_0/attention/self/query/kernel": (4, 4),
    "cls/seq_relationship/output_weights": (2, 4),
}


def save_by_name(prefix, tensors):
    """Writes a checkpoint as TF 1 does, `global_step` and Adam's slots beside the weights."""
    tensors = {name: tf.constant(value) for name, value in tensors.items()}
    tf.raw_ops.SaveV2(
        prefix=str(prefix),
        tensor_names=list(tensors),
        shape_and_slices=[""] * len(tensors),
        tensors=list(tensors.values()),
    )
    return pathlib.Path(prefix)


@pytest.fixture
def arrays():
    rng = np.random.default_rng(0)
    given = {name: rng.standard_normal(shape, dtype=np.float32) for name, shape in NAMES.items()}
    for slot in ("adam_m", "adam_v"):
        given |= {f"{name}/{slot}": np.zeros(shape, np.float32) for name, shape in NAMES.items()}
    return given | {"global_step": np.array(1000, np.int64)}


@pytest.fixture
def prefix(tmp_path, arrays):
    return save_by_name(tmp_path / "bert_model.ckpt", arrays)


def data_file(prefix):
    return prefix.with_name(prefix.name + ".data-00000-of-00001")


def index_file(prefix):
    return prefix.with_name(prefix.name + ".index")


def test_a_checkpoint_by_name(prefix, arrays):
    for place in (prefix.parent, prefix, index_file(prefix), str(prefix)):
        with open_tensors(place) as source:
            assert source.layout == "google"
            assert source.origin == str(prefix)
            assert source.shapes() == {name: array.shape for name, array in arrays.items()}
            for name, array in arrays.items():
                read = source.read(name)
                assert isinstance(read, np.ndarray) and read.dtype == array.dtype
                np.testing.assert_array_equal(read, array)
    with pytest.raises(ValueError, match="was closed"):
        source.read("global_step")


def test_a_checkpoint_by_object_has_the_gardens_layout(tmp_path):
    encoder = tf.Module()
    encoder._embedding_layer = tf.Module()
    encoder._embedding_layer.embeddings = tf.Variable(tf.ones((11, 4)))
    optimizer = tf.Module()
    optimizer.iterations = tf.Variable(7, dtype=tf.int64)
    tf.train.Checkpoint(encoder=encoder, optimizer=optimizer).save(tmp_path / "ckpt")
    with open_tensors(tmp_path) as source:
        assert source.layout == "garden"
        name = "encoder/_embedding_layer/embeddings/.ATTRIBUTES/VARIABLE_VALUE"
        assert source.shapes()[name] == (11, 4)
        np.testing.assert_array_equal(source.read(name), 1)
        assert source.read("optimizer/iterations/.ATTRIBUTES/VARIABLE_VALUE") == 7
        with pytest.raises(ValueError, match="stored as string"):
            source.read("_CHECKPOINTABLE_OBJECT_GRAPH")


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16, tf.float64])
def test_floats_come_as_float32(tmp_path, dtype):
    given = tf.cast([[1.5, -2.25]], dtype)
    with open_tensors(
        save_by_name(tmp_path / "x", {"a": given, "odd": tf.cast([1], tf.int8)})
    ) as s:
        read = s.read("a")
        assert read.dtype == np.float32
        np.testing.assert_array_equal(read, [[1.5, -2.25]])
        with pytest.raises(ValueError, match="'odd' of .* is stored as int8"):
            s.read("odd")


def test_an_array_outlives_its_source(prefix, arrays):
    name = "bert/embeddings/word_embeddings"
    with open_tensors(prefix) as source:
        read = source.read(name)
        read += 1
        np.testing.assert_array_equal(source.read(name), arrays[name])
    shutil.rmtree(prefix.parent)
    np.testing.assert_array_equal(read, arrays[name] + 1)


def test_a_variable_that_was_stored_in_slices(tmp_path):
    whole = np.arange(20, dtype=np.float32).reshape(5, 4)
    tf.raw_ops.SaveV2(
        prefix=str(tmp_path / "x"),
        tensor_names=["a", "a"],
        shape_and_slices=["5 4 0,3:-", "5 4 3,2:-"],
        tensors=[whole[:3], whole[3:]],
    )
    with open_tensors(tmp_path) as source:
        assert source.shapes() == {"a": (5, 4)}
        np.testing.assert_array_equal(source.read("a"), whole)


def test_several_data_files(tmp_path):
    parts = []
    for number, name in enumerate("ab"):
        parts.append(str(save_by_name(tmp_path / f"part{number}", {name: np.full(3, number, "f")})))
    tf.raw_ops.MergeV2Checkpoints(
        checkpoint_prefixes=parts, destination_prefix=str(tmp_path / "whole")
    )
    with open_tensors(tmp_path / "whole") as source:
        np.testing.assert_array_equal(source.read("b"), 1)
    (tmp_path / "whole.data-00001-of-00002").unlink()
    with pytest.raises(ValueError, match=r"lacks whole\.data-00001-of-00002"):
        open_tensors(tmp_path / "whole")


def test_the_state_file_chooses_by_name_alone(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    folder = tmp_path / "folder"
    folder.mkdir()
    for number in (1, 2):
        save_by_name(folder / f"ckpt-{number}", {"a": np.full(2, number, np.float32)})
    save_by_name(outside / "ckpt-1", {"a": np.full(2, 100, np.float32)})
    save_by_name(outside / "ckpt-9", {"a": np.full(2, 900, np.float32)})
    state = folder / "checkpoint"
    for path in (f"{outside}/ckpt-1", "ckpt-1", "C:\\\\models\\\\ckpt-1", "../outside/ckpt-1"):
        state.write_text(f'model_checkpoint_path: "{path}"\nall_model_checkpoint_paths: "x"\n')
        with open_tensors(folder) as source:
            assert source.origin == str(folder / "ckpt-1")
            np.testing.assert_array_equal(source.read("a"), 1)
    for content in (
        f'model_checkpoint_path: "{outside}/ckpt-9"'.encode(),
        b'model_checkpoint_path: "../outside/ckpt-9"',
        b'model_checkpoint_path: ""',
        b"nonsense {",
        b"\xff\xfe\x00",
        b"",
        None,
    ):
        state.write_bytes(content) if content is not None else state.unlink()
        with pytest.raises(ValueError, match=r"2 checkpoints \(ckpt-1, ckpt-2\).*Put the others"):
            open_tensors(folder)


def test_one_checkpoint_needs_no_state_file(prefix):
    (prefix.parent / "checkpoint").write_text('model_checkpoint_path: "/elsewhere/model.ckpt-9"')
    with open_tensors(prefix.parent) as source:
        assert source.origin == str(prefix)


def test_a_folder_of_the_same_name_is_not_taken_for_it(prefix, tmp_path):
    inner = tmp_path / "bert_model.ckpt"
    inner.mkdir()
    save_by_name(inner / "other", {"b": np.ones(1, np.float32)})
    with open_tensors(index_file(prefix)) as source:
        assert "global_step" in source.shapes()


def test_names_with_characters_of_patterns(tmp_path, arrays):
    folder = tmp_path / "a[b]*?"
    folder.mkdir()
    prefix = save_by_name(tmp_path / "plain", arrays)
    for file in (data_file(prefix), index_file(prefix)):
        shutil.copy(file, folder / file.name.replace("plain", "x[1]"))
    with open_tensors(folder) as source:
        assert source.shapes().keys() == arrays.keys()


@pytest.mark.parametrize("kept", [0, 1, 40, -1])
def test_an_index_that_is_cut(prefix, kept):
    index = index_file(prefix)
    index.write_bytes(index.read_bytes()[:kept])
    with pytest.raises(ValueError, match=r"is empty|is not whole .*fetch it again"):
        open_tensors(prefix)


def test_an_index_that_is_something_else(prefix):
    index_file(prefix).write_bytes(b"<html>404</html>" * 20)
    with pytest.raises(ValueError, match="is not whole .*bad magic number"):
        open_tensors(prefix)


def test_an_index_with_damage_anywhere(prefix, arrays):
    index = index_file(prefix)
    whole = index.read_bytes()
    refused = 0
    for place in range(0, len(whole), 7):
        index.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        try:
            with open_tensors(prefix) as source:
                for name in source.shapes():
                    np.testing.assert_array_equal(source.read(name), arrays[name])
        except ValueError:
            refused += 1
    assert refused > len(whole) // 7 // 2  # What is left is padding.


@pytest.mark.parametrize("kept", [0, 1, 100, -1])
def test_a_data_file_that_is_cut_is_refused_at_once(prefix, kept):
    data = data_file(prefix)
    data.write_bytes(data.read_bytes()[:kept])
    with pytest.raises(ValueError, match=r"is empty|have \d+ bytes, and its tensors take \d+"):
        open_tensors(prefix)


def test_damage_in_the_data_is_seen_by_its_checksum(prefix):
    data = data_file(prefix)
    content = bytearray(data.read_bytes())
    content[20] ^= 1
    data.write_bytes(content)
    with (
        open_tensors(prefix) as source,
        pytest.raises(ValueError, match=r"bert_model\.ckpt is not whole .*[Cc]hecksum"),
    ):
        for name in source.shapes():
            source.read(name)


def test_a_missing_data_file(prefix):
    data_file(prefix).unlink()
    for place in (prefix, prefix.parent):
        with pytest.raises(ValueError, match=r"lacks bert_model\.ckpt\.data-00000-of-00001"):
            open_tensors(place)


def test_a_data_file_that_vanishes_later(prefix):
    with open_tensors(prefix) as source:
        data_file(prefix).unlink()
        with pytest.raises(ValueError, match="is not whole"):
            source.read("global_step")


@pytest.mark.parametrize("which", [data_file, index_file])
def test_a_pointer_of_git_lfs(prefix, which):
    which(prefix).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:4d\nsize 9\n")
    with pytest.raises(ValueError, match="Git LFS pointer"):
        open_tensors(prefix)


def test_links(prefix, tmp_path_factory, arrays):
    snapshot = tmp_path_factory.mktemp("snapshot")
    for file in (data_file(prefix), index_file(prefix)):
        (snapshot / file.name).symlink_to(file)
    with open_tensors(snapshot) as source:
        assert source.shapes().keys() == arrays.keys()
