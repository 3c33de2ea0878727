"""The presets have exactly the sizes that the papers and the released checkpoints have."""

import gc

import pytest

import keras_bert_zoo as kbz
from keras_bert_zoo.presets import PRESETS, get_preset

# Encoder and pooler: Devlin et al. 2019 and Turc et al. 2019, counted in the released files.
PARAMETERS = {
    "bert_tiny": 4_385_920,
    "bert_mini": 11_170_560,
    "bert_small": 28_763_648,
    "bert_medium": 41_373_184,
    "bert_base_uncased": 109_482_240,
    "bert_base_cased": 108_310_272,
    "bert_base_chinese": 102_267_648,
    "bert_base_multilingual_cased": 177_853_440,
    "bert_large_uncased": 335_141_888,
}
LOWERCASE = {
    "bert_tiny": True,
    "bert_base_uncased": True,
    "bert_base_cased": False,
    "bert_base_chinese": True,
    "bert_base_multilingual_cased": False,
    "bert_large_cased": False,
}


def count(config):
    """The number of parameters by arithmetic, so that the large need not be built."""
    h, inner = config.hidden_size, config.intermediate_size
    tables = config.vocab_size + config.max_position_embeddings + config.type_vocab_size
    norm = 2 * h
    block = 4 * (h * h + h) + norm + (h * inner + inner) + (inner * h + h) + norm
    return tables * h + norm + config.num_hidden_layers * block + h * h + h


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_by_arithmetic(name):
    assert count(PRESETS[name].config) == PARAMETERS[name]


@pytest.mark.parametrize("name", ["bert_tiny", "bert_mini", "bert_small", "bert_medium"])
def test_parameters_as_built(name):
    encoder = kbz.BertEncoder.from_preset(name, load_weights=False)
    assert encoder.count_params() == PARAMETERS[name]
    assert count(encoder.config) == PARAMETERS[name]


def test_parameters_of_base_with_both_heads():
    """Half-precision variables, to save memory; the token table is counted once."""
    encoder = kbz.BertEncoder.from_preset("bert_base_uncased", load_weights=False, dtype="float16")
    assert encoder.count_params() == PARAMETERS["bert_base_uncased"]
    assert kbz.Pretraining(encoder).count_params() == 110_106_428
    del encoder
    gc.collect()


@pytest.mark.parametrize("name", PRESETS)
def test_what_all_presets_share(name):
    config = PRESETS[name].config
    assert config.hidden_size // config.num_attention_heads == 64
    assert config.intermediate_size == 4 * config.hidden_size
    assert config.max_position_embeddings == 512
    assert config.type_vocab_size == 2
    assert config.layer_norm_eps == 1e-12
    assert config.hidden_act == "gelu"
    assert config.hidden_dropout_prob == config.attention_probs_dropout_prob == 0.1
    assert config.initializer_range == 0.02
    owner, model = PRESETS[name].hub_id.split("/")
    assert owner in ("google", "google-bert")
    assert "uncased" not in model or PRESETS[name].lowercase


@pytest.mark.parametrize("name", LOWERCASE)
def test_case(name):
    assert get_preset(name).lowercase is LOWERCASE[name]


def test_presets_cannot_be_changed_by_accident():
    with pytest.raises(TypeError):
        PRESETS["bert_tiny"] = PRESETS["bert_mini"]


def test_an_unknown_preset_lists_those_there_are():
    with pytest.raises(ValueError, match=r"'bert_huge'.*bert_tiny.*bert_large_uncased"):
        kbz.BertEncoder.from_preset("bert_huge", load_weights=False)
