"""Which task a folder is of, by its config or by its weights."""

import json

import pytest
from checkpoint_files import Golden, google_names, write_google, write_hugging_face
from tiny import tiny_encoder, tiny_preprocessor

import keras_bert_zoo as kbz
from keras_bert_zoo.tasks.architectures import ARCHITECTURES, task_of_preset


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_by_the_config(tmp_path, name):
    kind = ARCHITECTURES[name]
    labels = {"labels": ["a", "b"]} if "Classification" in name else {}
    encoder = tiny_encoder(is_decoder=name == "BertLMHeadModel")
    task = kind(encoder, preprocessor=tiny_preprocessor(), **labels)
    assert task.architecture == name
    task.save_to_preset(tmp_path / "m")
    assert task_of_preset(tmp_path / "m") is kind


def test_kinds_that_share_a_class_of_theirs(tmp_path):
    kbz.MultiLabelClassifier(tiny_encoder(), ["a", "b"]).save_to_preset(tmp_path / "labels")
    assert task_of_preset(tmp_path / "labels") is kbz.MultiLabelClassifier
    kbz.TextEmbedder(tiny_encoder()).save_to_preset(tmp_path / "embedder")
    assert task_of_preset(tmp_path / "embedder") is kbz.TextEmbedder
    kbz.MaskedLM(tiny_encoder(is_decoder=True)).save_to_preset(tmp_path / "left_to_right")
    assert task_of_preset(tmp_path / "left_to_right") is kbz.MaskedLM
    tiny_encoder().save_to_preset(tmp_path / "encoder")
    assert task_of_preset(tmp_path / "encoder") is None


def test_by_the_weights(tmp_path):
    golden = Golden()
    assert task_of_preset(write_google(tmp_path / "all", golden)) is kbz.Pretraining
    names = google_names(golden.weights)
    without = {k: v for k, v in names.items() if "seq_relationship" not in k}
    assert task_of_preset(write_google(tmp_path / "words", golden, without)) is kbz.MaskedLM
    encoder = {k: v for k, v in names.items() if not k.startswith("cls/")}
    assert task_of_preset(write_google(tmp_path / "encoder", golden, encoder)) is None
    size = golden.config["hidden_size"]
    for head, kind in (("", kbz.TextClassifier), ("cls/squad/", kbz.QuestionAnswering)):
        kernel = names["cls/seq_relationship/output_weights"]
        bias = names["cls/seq_relationship/output_bias"]
        assert kernel.shape == (2, size)
        more = {f"{head}output_weights": kernel, f"{head}output_bias": bias}
        folder = write_google(tmp_path / f"head {len(head)}", golden, encoder | more)
        assert task_of_preset(folder) is kind
    config = {k: v for k, v in golden.config.items() if k not in ("model_type", "architectures")}
    folder = write_hugging_face(tmp_path / "hugging_face", golden, config=config)
    assert "architectures" not in json.loads((folder / "config.json").read_text())
    assert task_of_preset(folder) is kbz.Pretraining
