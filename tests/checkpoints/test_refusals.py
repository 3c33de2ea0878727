"""What is not the model that a config tells of is refused, before anything is loaded or built."""

import time

import numpy as np
import pytest
from checkpoint_files import (
    Golden,
    google_names,
    hugging_face_names,
    write_config,
    write_google,
    write_hugging_face,
)

import keras_bert_zoo as kbz
from keras_bert_zoo.checkpoints.loading import fill
from keras_bert_zoo.checkpoints.tensors import open_tensors


@pytest.fixture(scope="module")
def golden():
    return Golden()


def refused(preset, match, **kwargs):
    with pytest.raises(ValueError, match=match):
        kbz.BertEncoder.from_preset(preset, **kwargs)


def test_bc_k03_weights_of_another_scope(golden, tmp_path):
    names = {f"electra/{k}": v for k, v in google_names(golden.weights).items()}
    folder = write_google(tmp_path / "google", golden, names)
    refused(folder, r"no weight of a BERT encoder .*names such as: electra/bert/embeddings")
    weights = {f"electra.{k[5:]}": v for k, v in golden.weights.items() if k.startswith("bert.")}
    folder = write_hugging_face(tmp_path / "hugging_face", golden, weights)
    refused(folder, r"no weight of a BERT encoder .*names such as: electra\.embeddings")


def test_bc_k03_a_folder_without_a_checkpoint(golden, tmp_path):
    write_config(tmp_path, golden.config)
    refused(tmp_path, "no weights|holds none|model.safetensors")
    refused(tmp_path / "nothing", "nothing")
    (tmp_path / "empty").mkdir()
    refused(tmp_path / "empty", "No config.json or bert_config.json")


def test_bc_k03_some_weights_are_missing(golden, tmp_path):
    weights = hugging_face_names(golden.weights, without=("layer.1.output.dense",))
    folder = write_hugging_face(tmp_path / "model", golden, weights)
    refused(folder, r"lacks weights that the config asks for: encoder\.layer\.1\.output\.dense\.w")


def test_shapes_that_are_not_those_of_the_config(golden, tmp_path):
    folder = write_hugging_face(tmp_path / "model", golden)
    vocabulary = golden.config["vocab_size"]
    refused(
        folder,
        rf"word_embeddings\.weight has the shape \({vocabulary}, 21\), and the config asks for "
        r"\(70, 21\)",
        config_changes={"vocab_size": 70},
    )
    refused(folder, "has the shape", config_changes={"intermediate_size": 38})
    refused(folder, "lacks weights", config_changes={"num_hidden_layers": 4})
    refused(folder, "A config has no 'hidden' to change", config_changes={"hidden": 4})


def test_nothing_is_assigned_if_one_shape_is_wrong(golden, tmp_path):
    weights = dict(golden.weights)
    weights["cls.seq_relationship.weight"] = np.zeros((3, 21), np.float32)
    folder = write_hugging_face(tmp_path / "model", golden, weights)
    config = kbz.EncoderConfig.from_dict(golden.config)
    task = kbz.Pretraining(kbz.BertEncoder(config))
    before = [np.array(weight) for weight in task.weights]
    with (
        open_tensors(folder) as source,
        pytest.raises(ValueError, match=r"seq_relationship\.weight has the shape \(3, 21\)"),
    ):
        fill(task, source, config)
    for weight, value in zip(task.weights, before, strict=True):
        assert np.array_equal(weight, value)


@pytest.mark.parametrize(
    "changes",
    [
        {"vocab_size": 10**12},
        {"hidden_size": 3 * 10**9, "num_attention_heads": 3},
        {"num_hidden_layers": 10**9},
        {"intermediate_size": 10**15},
        {"max_position_embeddings": 10**11},
        {"type_vocab_size": 10**11},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_a_config_of_absurd_sizes_takes_no_memory(golden, tmp_path, changes):
    config = golden.config | changes
    folder = write_hugging_face(tmp_path / "model", golden, config=config)
    start = time.perf_counter()
    refused(folder, "do not fit the config|lacks weights|position table")
    with pytest.raises(ValueError, match="that takes .* GiB, and this machine has"):
        kbz.BertEncoder.from_preset(folder, load_weights=False)
    assert time.perf_counter() - start < 5


@pytest.mark.parametrize(
    "values, match",
    [
        ({"model_type": "roberta"}, "not the config of a plain BERT encoder: `model_type`"),
        ({"model_type": "albert"}, "`model_type` is 'albert'"),
        ({"model_type": None, "architectures": ["RobertaForMaskedLM"]}, "its `architectures` are"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type"),
        ({"add_cross_attention": True, "is_decoder": True}, "add_cross_attention"),
    ],
    ids=str,
)
def test_a_config_of_another_architecture(golden, tmp_path, values, match):
    config = golden.config | values
    config = {key: value for key, value in config.items() if value is not None}
    refused(write_hugging_face(tmp_path / "model", golden, config=config), match)


def test_a_config_without_model_type_is_told_by_architectures(golden, tmp_path):
    config = {key: value for key, value in golden.config.items() if key != "model_type"}
    for architectures in (None, [], ["BertForPreTraining"], ["BertModel"]):
        config["architectures"] = architectures
        kbz.BertEncoder.from_preset(write_hugging_face(tmp_path / "m", golden, config=config))


@pytest.mark.parametrize("text", ["", "[]", "{", "nul", '{"vocab_size": 1e999}', "[" * 100_000])
def test_a_config_that_is_damaged(golden, tmp_path, text):
    folder = write_hugging_face(tmp_path / "model", golden)
    (folder / "config.json").write_text(text)
    refused(folder, "config.json")


def test_the_same_weight_twice(golden, tmp_path):
    weights = golden.weights | {
        "embeddings.LayerNorm.gamma": golden.weights["bert.embeddings.LayerNorm.weight"] + 1
    }
    folder = write_hugging_face(tmp_path / "model", golden, weights)
    refused(folder, "holds the same weight twice, as 'bert.embeddings.LayerNorm.weight' and")


def test_a_head_with_a_table_of_its_own(golden, tmp_path):
    table = golden.weights["bert.embeddings.word_embeddings.weight"]
    name = "cls.predictions.decoder.weight"
    same = write_hugging_face(tmp_path / "same", golden, golden.weights | {name: table})
    task = kbz.Pretraining.from_preset(same, preprocessor=None)
    assert task.load_report.unused == ()
    other = write_hugging_face(tmp_path / "other", golden, golden.weights | {name: table + 1})
    kbz.BertEncoder.from_preset(other)
    with pytest.raises(ValueError, match=f"a table of its own, {name}"):
        kbz.Pretraining.from_preset(other, preprocessor=None)


@pytest.mark.parametrize("how", ["copy", "interpolate"])
def test_more_positions(golden, tmp_path, how):
    folder = write_hugging_face(tmp_path / "model", golden)
    rows = golden.config["max_position_embeddings"]
    refused(folder, f"between 1 and the {rows} rows", sequence_length=2 * rows)
    refused(
        folder,
        f"has {rows} rows, and 70 were asked for: pass `extend_positions='copy'`",
        config_changes={"max_position_embeddings": 70},
    )
    refused(folder, "one of copy, interpolate", sequence_length=50, extend_positions="stretch")
    longer = kbz.BertEncoder.from_preset(folder, sequence_length=2 * rows, extend_positions=how)
    table = np.array(next(w for w in longer.weights if w.path == "embeddings/position_table"))
    original = golden.weights["bert.embeddings.position_embeddings.weight"]
    assert table.shape[0] == 2 * rows
    if how == "copy":
        assert np.array_equal(table, np.concatenate([original, original]))
    else:
        assert np.array_equal(table[0], original[0])
        assert np.allclose(table[-1], original[-1], atol=1e-6)
        place = 7 * (rows - 1) / (2 * rows - 1)  # Between rows 3 and 4.
        share = place - 3
        assert np.allclose(table[7], original[3] * (1 - share) + original[4] * share, atol=1e-6)
    task = kbz.MaskedLM.from_preset(
        folder, preprocessor=None, sequence_length=rows + 1, extend_positions=how
    )
    assert task.encoder.config.max_position_embeddings == rows + 1


def test_a_failure_in_the_middle_of_reading_gives_no_model(golden, tmp_path, monkeypatch):
    folder = write_hugging_face(tmp_path / "model", golden)
    with open_tensors(folder) as source:
        kind = type(source)
    read, calls = kind.read, []

    def failing(self, name):
        calls.append(name)
        if len(calls) == 20:
            raise ValueError("the disk is broken")
        return read(self, name)

    monkeypatch.setattr(kind, "read", failing)
    refused(folder, "the disk is broken")
    assert len(calls) == 20


def test_labels_that_are_no_object(golden, tmp_path):
    config = golden.config | {"architectures": ["BertForSequenceClassification"]}
    head = {"classifier.weight": np.ones((2, 21), np.float32), "classifier.bias": np.ones(2)}
    for labels in ([1], {"a": "b"}, {"0": "x", "2": "y"}, "yes"):
        config["id2label"] = labels
        folder = write_hugging_face(tmp_path / "model", golden, golden.weights | head, config)
        with pytest.raises(ValueError, match="`id2label` that is no object"):
            kbz.TextClassifier.from_preset(folder, preprocessor=None)
        kbz.BertEncoder.from_preset(folder)  # Which has no labels.
