"""The files of sentence-transformers, in the forms that they have had."""

import json

import numpy as np
import pytest
from tiny import tiny_encoder, tiny_preprocessor

import keras_bert_zoo as kbz
from keras_bert_zoo.tasks.sentence_transformers import read_sentence_transformer


@pytest.fixture
def folder(tmp_path):
    task = kbz.TextEmbedder(tiny_encoder(), tiny_preprocessor(12), pooling="cls", normalize=True)
    task.save_to_preset(tmp_path / "model")
    return tmp_path / "model"


def rewrite(path, change):
    values = json.loads(path.read_text())
    path.write_text(json.dumps(change(values)))


def test_a_written_folder_is_read_back(folder):
    assert read_sentence_transformer(folder) == {
        "pooling": "cls",
        "normalize": True,
        "sequence_length": 12,
    }
    task = kbz.TextEmbedder.from_preset(folder)
    assert (task.pooling, task.normalize) == ("cls", True)
    assert task.preprocessor.sequence_length == 12
    task = kbz.TextEmbedder.from_preset(folder, pooling="max", sequence_length=9)
    assert (task.pooling, task.normalize, task.preprocessor.sequence_length) == ("max", True, 9)
    # Other tasks have no use for it.
    assert kbz.MaskedLM.from_preset(folder).preprocessor.sequence_length == 32


def test_a_plain_folder_is_none(tmp_path):
    tiny_encoder().save_to_preset(tmp_path / "model")
    assert read_sentence_transformer(tmp_path / "model") == {}
    assert kbz.TextEmbedder.from_preset(tmp_path / "model").pooling == "mean"


def test_newer_files(folder):
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode": "mean"}')
    rewrite(folder / "modules.json", lambda modules: modules[:2])
    told = read_sentence_transformer(folder)
    assert (told["pooling"], told["normalize"]) == ("mean", False)


@pytest.mark.parametrize(
    "pooling",
    [
        {},
        {"pooling_mode_mean_sqrt_len_tokens": True},
        {"pooling_mode_cls_token": True, "pooling_mode_max_tokens": True},
        {"pooling_mode": "lasttoken"},
        {"pooling_mode": ["mean", "max"]},
        {"pooling_mode_cls_token": "yes"},
        [],
    ],
    ids=str,
)
def test_another_pooling_is_refused(folder, pooling):
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    with pytest.raises(ValueError, match="1_Pooling.*config.json"):
        kbz.TextEmbedder.from_preset(folder)


@pytest.mark.parametrize(
    "text", ["", "{}", "[1]", "[{}]", '[{"type": 3, "path": ""}]', "[" * 100_000, "null"]
)
def test_malformed_modules(folder, text):
    (folder / "modules.json").write_text(text)
    with pytest.raises(ValueError, match="modules.json"):
        kbz.TextEmbedder.from_preset(folder)


def test_other_modules_are_refused(folder):
    dense = {"idx": 2, "name": "2", "path": "2_Dense", "type": "sentence_transformers.models.Dense"}
    rewrite(folder / "modules.json", lambda modules: [*modules[:2], dense])
    with pytest.raises(ValueError, match="Transformer, Pooling, Dense, and only"):
        kbz.TextEmbedder.from_preset(folder)
    kbz.BertEncoder.from_preset(folder)


def test_layers_have_no_place_there(folder, tmp_path):
    task = kbz.TextEmbedder.from_preset(folder, layers=[-1, -2], normalize=False)
    assert task.predict(["tea"], verbose=0).shape == (1, 32)
    with pytest.raises(ValueError, match="no place for `layers`"):
        task.save_to_preset(tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_layers_side_by_side_and_summed(folder):
    texts = ["what a film", "tea"]
    one, two = (
        kbz.TextEmbedder.from_preset(folder, layers=[n], normalize=False).embed(texts)
        for n in (-1, 1)
    )
    both = kbz.TextEmbedder.from_preset(folder, layers=[-1, 1], normalize=False)
    assert np.allclose(both.embed(texts), np.concatenate([one, two], axis=-1), atol=1e-6)
    both = kbz.TextEmbedder.from_preset(folder, layers=[-1, 1], normalize=False, combine="sum")
    assert np.allclose(both.embed(texts), one + two, atol=1e-6)
    with pytest.raises(ValueError, match="`combine` must be one of concat, sum"):
        kbz.TextEmbedder.from_preset(folder, layers=[-1], combine="mean")
