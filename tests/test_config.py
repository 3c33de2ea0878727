"""EncoderConfig: the two files it reads and writes."""

import dataclasses
import json

import pytest
from config_files import GOOGLE, GOOGLE_EXTRA, HUGGING_FACE_EXTRA, config, write

import keras_bert_zoo as kbz


def check_google(read):
    assert {key: getattr(read, key) for key in GOOGLE} == GOOGLE
    assert read.layer_norm_eps == 1e-12  # Google's files do not say; their code does.
    assert read.pad_token_id == 0
    assert read.embedding_size is None


@pytest.mark.parametrize("extra", [{}, GOOGLE_EXTRA], ids=["english", "chinese"])
def test_reads_googles_file(tmp_path, extra):
    check_google(kbz.EncoderConfig.from_file(write(tmp_path / "bert_config.json", GOOGLE | extra)))


def test_reads_a_hugging_face_file(tmp_path):
    read = kbz.EncoderConfig.from_file(write(tmp_path / "config.json", GOOGLE | HUGGING_FACE_EXTRA))
    assert {key: getattr(read, key) for key in GOOGLE} == GOOGLE
    assert read.layer_norm_eps == 1e-5
    assert read.pad_token_id == 3


def test_reads_the_file_in_a_folder(tmp_path):
    write(tmp_path / "bert_config.json", GOOGLE)
    check_google(kbz.EncoderConfig.from_file(tmp_path))
    check_google(kbz.EncoderConfig.from_file(str(tmp_path)))


def test_in_a_folder_of_both_the_hugging_face_file_counts(tmp_path):
    write(tmp_path / "bert_config.json", GOOGLE)
    write(tmp_path / "config.json", GOOGLE | {"vocab_size": 77})
    assert kbz.EncoderConfig.from_file(tmp_path).vocab_size == 77


def test_reads_a_file_with_a_byte_order_mark(tmp_path):
    path = tmp_path / "config.json"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(GOOGLE).encode())
    check_google(kbz.EncoderConfig.from_file(path))


@pytest.mark.parametrize("name", ["bert_config.json", "config.json", "my.json"])
@pytest.mark.parametrize("embedding_size", [None, 8])
def test_round_trip(tmp_path, name, embedding_size):
    """Every field has another value than its default."""
    before = config(
        hidden_act="gelu_new",
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.25,
        max_position_embeddings=33,
        type_vocab_size=4,
        initializer_range=0.03,
        layer_norm_eps=1e-6,
        embedding_size=embedding_size,
        pad_token_id=7,
        is_decoder=True,
    )
    before.save(tmp_path / name)
    assert kbz.EncoderConfig.from_file(tmp_path / name) == before
    written = json.loads((tmp_path / name).read_text())
    assert ("model_type" in written) == (name != "bert_config.json")
    assert None not in written.values()


def test_save_into_a_folder(tmp_path):
    config().save(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["model_type"] == "bert"
    assert kbz.EncoderConfig.from_file(tmp_path) == config()


def test_round_trip_of_dicts():
    before = config(layer_norm_eps=1e-7)
    assert kbz.EncoderConfig.from_dict(before.to_dict()) == before
    assert kbz.EncoderConfig.from_dict(before.to_hugging_face()) == before
    assert kbz.EncoderConfig.from_dict(json.loads(json.dumps(before.to_dict()))) == before


def test_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        config().hidden_size = 24
    assert hash(config()) == hash(config())
