"""EncoderConfig: the two files it reads and writes, and what it refuses."""

import dataclasses
import json

import pytest

import keras_bert_zoo as kbz

# As the released google-research/bert archives have it.
GOOGLE = {
    "attention_probs_dropout_prob": 0.1,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "hidden_size": 128,
    "initializer_range": 0.02,
    "intermediate_size": 512,
    "max_position_embeddings": 512,
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
    "type_vocab_size": 2,
    "vocab_size": 30522,
}
# Those of the Chinese and multilingual archives have keys that no code has ever read.
GOOGLE_EXTRA = {
    "directionality": "bidi",
    "pooler_fc_size": 768,
    "pooler_num_attention_heads": 12,
    "pooler_num_fc_layers": 3,
    "pooler_size_per_head": 128,
    "pooler_type": "first_token_transform",
}
# As `transformers` has written it over the years.
HUGGING_FACE_EXTRA = {
    "_name_or_path": "somewhere",
    "add_cross_attention": False,
    "architectures": ["BertForMaskedLM"],
    "bos_token_id": None,
    "chunk_size_feed_forward": 0,
    "classifier_dropout": None,
    "dtype": "float32",
    "eos_token_id": None,
    "gradient_checkpointing": False,
    "id2label": {"0": "no", "1": "yes"},
    "is_decoder": False,
    "is_encoder_decoder": False,
    "label2id": {"no": 0, "yes": 1},
    "layer_norm_eps": 1e-5,
    "model_type": "bert",
    "output_attentions": False,
    "pad_token_id": 3,
    "position_embedding_type": "absolute",
    "problem_type": None,
    "pruned_heads": {},
    "return_dict": True,
    "tie_word_embeddings": True,
    "torchscript": False,
    "transformers_version": "4.6.0.dev0",
    "use_cache": True,
}


def config(**changes):
    values = {
        "vocab_size": 40,
        "hidden_size": 12,
        "num_hidden_layers": 2,
        "num_attention_heads": 3,
        "intermediate_size": 20,
    }
    return kbz.EncoderConfig(**(values | changes))


def write(path, values):
    path.write_text(json.dumps(values), encoding="utf-8")
    return path


def check_google(read):
    assert {key: getattr(read, key) for key in GOOGLE} == GOOGLE
    assert read.layer_norm_eps == 1e-12  # Google's files do not say; their code does.
    assert read.pad_token_id == 0
    assert read.embedding_size is None


@pytest.mark.parametrize("extra", [{}, GOOGLE_EXTRA], ids=["english", "chinese"])
def test_reads_googles_file(tmp_path, extra):
    check_google(
        kbz.EncoderConfig.from_file(write(tmp_path / "bert_config.json", GOOGLE | extra))
    )


def test_reads_a_hugging_face_file(tmp_path):
    read = kbz.EncoderConfig.from_file(
        write(tmp_path / "config.json", GOOGLE | HUGGING_FACE_EXTRA)
    )
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


def test_refuses_heads_that_do_not_divide():
    with pytest.raises(ValueError, match=r"hidden_size=12, num_attention_heads=5"):
        config(num_attention_heads=5)


def test_refuses_padding_outside_the_vocabulary():
    with pytest.raises(ValueError, match=r"pad_token_id=40, vocab_size=40"):
        config(pad_token_id=40)


@pytest.mark.parametrize(
    "change",
    [
        {"is_decoder": True},
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
