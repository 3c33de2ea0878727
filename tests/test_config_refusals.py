"""What EncoderConfig refuses, each time saying what it received."""

import json

import pytest
from config_files import GOOGLE, HUGGING_FACE_EXTRA, config, write

import keras_bert_zoo as kbz

WHOLE = [
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "max_position_embeddings",
    "type_vocab_size",
    "embedding_size",
    "pad_token_id",
]
RATES = ["hidden_dropout_prob", "attention_probs_dropout_prob"]
SMALL = ["initializer_range", "layer_norm_eps"]


def refuse(match, **changes):
    """The message must name the field and show what was received."""
    with pytest.raises(ValueError, match=match) as caught:
        config(**changes)
    (field, value), *_ = changes.items()
    assert f"`{field}`" in str(caught.value)
    assert str(value) in str(caught.value)


@pytest.mark.parametrize("field", WHOLE)
@pytest.mark.parametrize("value", [12.0, True, "12", [12], float("nan"), float("inf"), -1])
def test_refuses_what_is_no_whole_number(field, value):
    refuse("at least" if value == -1 else "whole number", **{field: value})


@pytest.mark.parametrize("field", sorted({*WHOLE} - {"pad_token_id", "num_hidden_layers"}))
def test_refuses_zero(field):
    refuse("at least 1", **{field: 0})


@pytest.mark.parametrize("field", RATES + SMALL)
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -0.1, 1.0, True, "0.1", [0.1]])
def test_refuses_what_is_no_small_number(field, value):
    refuse("Received", **{field: value})


@pytest.mark.parametrize("field", SMALL)
def test_refuses_zero_where_it_must_be_positive(field):
    refuse("between 0 and 1", **{field: 0.0})


@pytest.mark.parametrize("value", [0, 0.0, 0.999])
def test_takes_any_dropout_rate_below_one(value):
    assert config(hidden_dropout_prob=value).hidden_dropout_prob == value


@pytest.mark.parametrize("value", ["gelu_fast", "GELU", "", None, 3, ["gelu"]])
def test_refuses_an_unknown_activation(value):
    with pytest.raises(ValueError, match=r"gelu.*gelu_new") as caught:
        config(hidden_act=value)
    assert repr(value) in str(caught.value)


@pytest.mark.parametrize("value", [1, 0, 1.0, "yes", "true", [True], None])
def test_refuses_what_is_neither_true_nor_false(value):
    refuse("true or false", is_decoder=value)


@pytest.mark.parametrize("value", [1, 0, "yes"])
def test_refuses_it_in_a_file_too(tmp_path, value):
    path = write(tmp_path / "config.json", GOOGLE | HUGGING_FACE_EXTRA | {"is_decoder": value})
    with pytest.raises(ValueError, match=r"config\.json: `is_decoder` must be true or false"):
        kbz.EncoderConfig.from_file(path)


def test_refuses_heads_that_do_not_divide():
    with pytest.raises(ValueError, match=r"hidden_size=12, num_attention_heads=5"):
        config(num_attention_heads=5)


def test_refuses_padding_outside_the_vocabulary():
    with pytest.raises(ValueError, match=r"pad_token_id=40, vocab_size=40"):
        config(pad_token_id=40)


@pytest.mark.parametrize(
    "change",
    [
        {"add_cross_attention": True},
        {"is_encoder_decoder": True},
        {"position_embedding_type": "relative_key"},
        {"position_embedding_type": "relative_key_query"},
        {"model_type": "roberta"},
        {"model_type": "gpt2"},
        {"pruned_heads": {"0": [1]}},
    ],
    ids=str,
)
def test_refuses_another_architecture(tmp_path, change):
    (key, value), *_ = change.items()
    path = write(tmp_path / "config.json", GOOGLE | HUGGING_FACE_EXTRA | change)
    with pytest.raises(ValueError, match="plain BERT encoder") as caught:
        kbz.EncoderConfig.from_file(path)
    for said in (key, str(value), str(path)):
        assert said in str(caught.value)


REQUIRED = [
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
]


@pytest.mark.parametrize("key", REQUIRED)
def test_refuses_a_missing_key(key):
    values = dict(GOOGLE)
    del values[key]
    with pytest.raises(ValueError, match=f"lacks `{key}`"):
        kbz.EncoderConfig.from_dict(values)


@pytest.mark.parametrize("key", REQUIRED)
def test_refuses_null_for_a_required_key(key):
    with pytest.raises(ValueError, match=f"`{key}`"):
        kbz.EncoderConfig.from_dict(GOOGLE | {key: None})


def test_names_all_missing_keys():
    with pytest.raises(ValueError) as caught:
        kbz.EncoderConfig.from_dict({"n_layer": 12})
    for said in (*REQUIRED, "n_layer"):
        assert said in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{'vocab_size': 3}",
        b"\x1f\x8b\x08\x00binary",
        b'{"vocab_size": 3',
        json.dumps(GOOGLE).encode("utf-16"),
    ],
    ids=["empty", "python", "gzip", "cut", "utf-16"],
)
def test_refuses_what_is_not_json(tmp_path, content):
    path = tmp_path / "config.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"config\.json is not JSON"):
        kbz.EncoderConfig.from_file(path)


@pytest.mark.parametrize("values", [[GOOGLE], "bert", 3, None, True], ids=str)
def test_refuses_json_that_is_no_object(tmp_path, values):
    path = write(tmp_path / "config.json", values)
    with pytest.raises(ValueError, match=r"config\.json: .*one JSON object"):
        kbz.EncoderConfig.from_file(path)


def test_refuses_nan_in_a_file(tmp_path):
    path = write(tmp_path / "config.json", GOOGLE | {"layer_norm_eps": float("nan")})
    assert "NaN" in path.read_text()
    with pytest.raises(ValueError, match=r"config\.json: .*layer_norm_eps.*nan"):
        kbz.EncoderConfig.from_file(path)


def test_a_refusal_names_the_file(tmp_path):
    path = write(tmp_path / "config.json", GOOGLE | {"hidden_size": 127})
    with pytest.raises(ValueError) as caught:
        kbz.EncoderConfig.from_file(path)
    assert str(path) in str(caught.value)
    assert "hidden_size=127" in str(caught.value)


def test_refuses_a_folder_without_a_config(tmp_path):
    write(tmp_path / "other.json", GOOGLE)
    with pytest.raises(ValueError, match="No config.json or bert_config.json") as caught:
        kbz.EncoderConfig.from_file(tmp_path)
    assert str(tmp_path) in str(caught.value)


def test_refuses_a_path_that_is_not_there(tmp_path):
    with pytest.raises(ValueError, match=r"nowhere\.json cannot be read"):
        kbz.EncoderConfig.from_file(tmp_path / "nowhere.json")
