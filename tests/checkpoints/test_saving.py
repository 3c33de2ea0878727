"""A folder that is written is read back as the same model, and is whole or not there."""

import json
import os

import numpy as np
import pytest
from checkpoint_files import Golden, write_hugging_face
from tiny import VOCABULARY, tiny_preprocessor
from tiny_tasks import LABELS, TASKS, batch_for, encoder, equal, trained

import keras_bert_zoo as kbz


@pytest.mark.parametrize("name", TASKS)
def test_a_task_comes_back(name, tmp_path, recwarn):
    task = trained(TASKS[name]())
    task.save_to_preset(tmp_path / "model")
    more = {"next_sentence": False} if name == "pretraining_masked" else {}
    found = type(task).from_preset(tmp_path / "model", sequence_length=12, **more)
    assert not [str(w.message) for w in recwarn if issubclass(w.category, UserWarning)]
    batch = batch_for(task)
    assert equal(task(batch), found(batch))
    assert {path.split("/")[0] for path in found.load_report.missing} <= {"pooler"}
    assert found.load_report.unused == ()
    ours, theirs = task.get_config(), found.get_config()
    for config in (ours, theirs):
        config.pop("name")
        config["encoder"]["config"].pop("name")
        for part in (config["preprocessor"], config["preprocessor"]["config"]["tokenizer"]):
            part["config"].pop("name")
    assert ours == theirs
    assert found.tokenizer.vocabulary == VOCABULARY


def test_an_encoder_comes_back(tmp_path):
    model = trained(encoder())
    model.save_to_preset(tmp_path / "model")
    assert sorted(os.listdir(tmp_path / "model")) == ["config.json", "model.safetensors"]
    assert equal(
        model(batch_for(model)), kbz.BertEncoder.from_preset(tmp_path / "model")(batch_for(model))
    )


def test_a_whole_checkpoint_survives_with_its_heads(tmp_path):
    golden = Golden()
    task = kbz.Pretraining.from_preset(
        write_hugging_face(tmp_path / "a", golden), preprocessor=None
    )
    task.save_to_preset(tmp_path / "b")
    from safetensors.numpy import load_file

    written = load_file(tmp_path / "b" / "model.safetensors")
    assert written.keys() == golden.weights.keys()
    for name, value in golden.weights.items():
        assert np.array_equal(written[name], value), name


def test_labels_and_more_in_the_config(tmp_path):
    def config_of(name):
        TASKS[name]().save_to_preset(tmp_path / name)
        return json.loads((tmp_path / name / "config.json").read_text())

    config = config_of("classifier")
    assert config["id2label"] == {"0": "bad", "1": "good", "2": "fine"}
    assert config["label2id"] == {"bad": 0, "good": 1, "fine": 2}
    assert config["architectures"] == ["BertForSequenceClassification"]
    assert config["problem_type"] == "single_label_classification"
    assert config["classifier_dropout"] == 0.25
    assert config["model_type"] == "bert"
    assert config_of("regression")["problem_type"] == "regression"
    assert config_of("regression")["id2label"] == {"0": "LABEL_0"}
    assert config_of("multi_label")["problem_type"] == "multi_label_classification"
    assert config_of("pretraining_masked")["architectures"] == ["BertForMaskedLM"]


def test_a_failure_leaves_what_was_there(tmp_path, monkeypatch):
    task = trained(TASKS["classifier"]())
    monkeypatch.setattr(task, "write_preset_files", lambda folder: (folder / "a" / "b").touch())
    with pytest.raises(OSError):
        task.save_to_preset(tmp_path / "model")
    assert os.listdir(tmp_path) == []
    monkeypatch.undo()
    task.save_to_preset(tmp_path / "model")
    before = {file.name: file.read_bytes() for file in (tmp_path / "model").iterdir()}
    monkeypatch.setattr(task, "write_preset_files", lambda folder: (folder / "a" / "b").touch())
    with pytest.raises(OSError):
        trained(task, 1).save_to_preset(tmp_path / "model")
    assert {f.name: f.read_bytes() for f in (tmp_path / "model").iterdir()} == before
    assert os.listdir(tmp_path) == ["model"]


def test_a_folder_with_other_files_is_not_replaced(tmp_path):
    (tmp_path / "pytorch_model.bin").touch()
    with pytest.raises(ValueError, match="pytorch_model.bin"):
        encoder().save_to_preset(tmp_path)
    assert os.listdir(tmp_path) == ["pytorch_model.bin"]


def test_weights_without_a_name_there_are_refused(tmp_path):
    model = encoder(embedding_size=8)
    with pytest.raises(ValueError, match=r"no place for these weights .*embeddings/projection"):
        model.save_to_preset(tmp_path / "model")
    assert os.listdir(tmp_path) == []


def test_over_the_folder_it_came_from(tmp_path):
    task = trained(TASKS["classifier"]())
    task.save_to_preset(tmp_path / "model")
    again = kbz.TextClassifier.from_preset(tmp_path / "model")
    trained(again, 5).save_to_preset(tmp_path / "model")
    found = kbz.TextClassifier.from_preset(tmp_path / "model")
    assert equal(again(batch_for(again)), found(batch_for(again)))


class TestLabels:
    @pytest.fixture
    def folder(self, tmp_path):
        trained(TASKS["classifier"]()).save_to_preset(tmp_path / "model")
        return tmp_path / "model"

    def test_the_presets_own(self, folder, recwarn):
        task = kbz.TextClassifier.from_preset(folder)
        assert task.labels == LABELS
        assert task.dropout_rate == 0.25
        assert kbz.TextClassifier.from_preset(folder, labels=LABELS, dropout=0.0).dropout_rate == 0
        assert not [w for w in recwarn if issubclass(w.category, UserWarning)]

    def test_another_order_is_refused(self, folder):
        with pytest.raises(ValueError, match="in another order: bad, good, fine"):
            kbz.TextClassifier.from_preset(folder, labels=["good", "bad", "fine"])

    def test_other_labels_get_a_new_head(self, folder):
        for labels, reason in (
            (["x", "y"], "has 3 outputs"),
            (["x", "y", "z"], "has the labels bad, good, fine"),
            (None, "has 3 outputs"),
        ):
            with pytest.warns(
                UserWarning, match=f"logits, as the classifier there {reason}: it starts"
            ):
                task = kbz.TextClassifier.from_preset(folder, labels=labels)
            assert task.labels == labels
            assert "logits/kernel" in task.load_report.missing
            assert "block_0/output/kernel" in task.load_report.loaded

    def test_a_head_of_another_task_is_not_taken(self, folder):
        with pytest.warns(
            UserWarning, match="the classifier there is of BertForSequenceClassification"
        ):
            kbz.TokenClassifier.from_preset(folder, labels=LABELS)
        with pytest.raises(ValueError, match="labels"):
            kbz.TokenClassifier.from_preset(folder)
        trained(TASKS["choice"]()).save_to_preset(folder)
        with pytest.warns(UserWarning, match="the classifier there is of BertForMultipleChoice"):
            kbz.TextClassifier.from_preset(folder, labels=None)

    def test_names_that_are_none(self, folder):
        config = json.loads((folder / "config.json").read_text())
        for labels in ({"0": "LABEL_0", "1": "LABEL_1", "2": "LABEL_2"}, {"0": "LABEL_0"}, None):
            config["id2label"] = labels
            (folder / "config.json").write_text(json.dumps(config))
            task = kbz.TextClassifier.from_preset(folder)
            assert task.labels == ["LABEL_0", "LABEL_1", "LABEL_2"]
            task = kbz.TextClassifier.from_preset(folder, labels=["x", "y", "z"])
            assert task.labels == ["x", "y", "z"]
            assert task.load_report.missing == ()

    def test_the_kind_of_problem(self, folder):
        with pytest.raises(ValueError, match="TextClassifier"):
            kbz.MultiLabelClassifier.from_preset(folder)
        trained(TASKS["multi_label"]()).save_to_preset(folder)
        with pytest.raises(ValueError, match="MultiLabelClassifier"):
            kbz.TextClassifier.from_preset(folder)
        trained(TASKS["classifier"]()).save_to_preset(folder)
        config = json.loads((folder / "config.json").read_text())
        config["problem_type"] = "regression"
        (folder / "config.json").write_text(json.dumps(config))
        with pytest.raises(ValueError, match="regression of 3"):
            kbz.TextClassifier.from_preset(folder)


def test_vocabularies_that_do_not_fit_the_table(tmp_path):
    trained(TASKS["masked"]()).save_to_preset(tmp_path / "model")
    with pytest.raises(ValueError, match=r"vocabulary has \d+ entries.* table only \d+ rows"):
        kbz.MaskedLM.from_preset(tmp_path / "model", vocabulary=[*VOCABULARY, "more"])
    large = kbz.MaskedLM(encoder(vocab_size=1000), tiny_preprocessor())
    large.save_to_preset(tmp_path / "large")
    with pytest.warns(UserWarning, match=r"vocabulary has \d+ tokens, .* table 1,000 rows"):
        kbz.MaskedLM.from_preset(tmp_path / "large")


def test_a_padded_table_is_nothing_to_warn_of(tmp_path, recwarn):
    model = kbz.MaskedLM(encoder(vocab_size=64), tiny_preprocessor())
    model.save_to_preset(tmp_path / "model")
    kbz.MaskedLM.from_preset(tmp_path / "model")
    assert not [w for w in recwarn if issubclass(w.category, UserWarning)]


def test_longer_texts_than_positions(tmp_path):
    trained(TASKS["masked"]()).save_to_preset(tmp_path / "model")
    with pytest.raises(ValueError, match="33.*32|32.*33"):
        kbz.MaskedLM.from_preset(tmp_path / "model", sequence_length=33)
    with pytest.raises(ValueError, match="extend_positions"):
        kbz.MaskedLM.from_preset(tmp_path / "model", sequence_length=33)
    task = kbz.MaskedLM.from_preset(tmp_path / "model", sequence_length=33, extend_positions="copy")
    assert task.preprocessor.sequence_length == 33
    assert task.predict(["good film " * 40 + "[MASK]"], verbose=0) is not None
