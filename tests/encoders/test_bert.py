"""BertEncoder: outputs, lengths, masks, dtypes, files."""

import json

import keras
import numpy as np
import pytest
from tiny import tiny_config

import keras_bert_zoo as kbz

HIDDEN, LAYERS, HEADS = 16, 2, 2
NAMES = ("token_ids", "segment_ids", "padding_mask")


def to_numpy(x):
    return keras.ops.convert_to_numpy(keras.ops.cast(x, "float32"))


def make_encoder(seed=0, changes=None, **kwargs):
    """An encoder whose biases and norms are not trivial."""
    encoder = kbz.BertEncoder(tiny_config(**(changes or {})), **kwargs)
    random = np.random.default_rng(seed)
    for weight in encoder.weights:
        base = 1 if weight.path.endswith("gamma") else 0
        weight.assign(base + random.normal(scale=0.2, size=weight.shape))
    return encoder


def make_ids(*lengths, length=None, seed=0):
    """Rows of so many real tokens; the second half of each is segment 1."""
    length = length or max(lengths)
    random = np.random.default_rng(seed)
    place, real = np.arange(length), np.array(lengths)[:, None]
    return {
        "token_ids": np.where(
            place < real, random.integers(5, 25, (len(lengths), length)), 0
        ).astype(np.int32),
        "segment_ids": ((place >= real // 2) & (place < real)).astype(np.int32),
        "padding_mask": (place < real).astype(np.int32),
    }


@pytest.fixture(scope="module")
def encoder():
    return make_encoder(output_hidden_states=True, output_attentions=True)


def test_outputs_and_their_shapes(encoder):
    outputs = encoder(make_ids(7, 4))
    assert outputs.keys() == {"sequence_output", "pooled_output", "hidden_states", "attentions"}
    assert outputs["sequence_output"].shape == (2, 7, HIDDEN)
    assert outputs["pooled_output"].shape == (2, HIDDEN)
    assert [tuple(x.shape) for x in outputs["hidden_states"]] == [(2, 7, HIDDEN)] * (LAYERS + 1)
    assert [tuple(x.shape) for x in outputs["attentions"]] == [(2, HEADS, 7, 7)] * LAYERS
    np.testing.assert_array_equal(
        to_numpy(outputs["hidden_states"][-1]), to_numpy(outputs["sequence_output"])
    )
    for probabilities in outputs["attentions"]:
        np.testing.assert_allclose(to_numpy(probabilities).sum(-1), 1, atol=1e-5)
        assert (to_numpy(probabilities)[1, :, :, 4:] == 0).all()


def test_states_and_attentions_only_on_request():
    assert kbz.BertEncoder(tiny_config()).output.keys() == {"sequence_output", "pooled_output"}
    with_states = kbz.BertEncoder(tiny_config(), output_hidden_states=True)
    assert "attentions" not in with_states.output
    assert len(with_states.output["hidden_states"]) == LAYERS + 1


@pytest.mark.parametrize("length", [None, 7])
def test_inputs(length):
    encoder = kbz.BertEncoder(tiny_config(), sequence_length=length)
    assert encoder.input.keys() == set(NAMES)
    for tensor in encoder.input.values():
        assert tensor.shape == (None, length)
        assert tensor.dtype == "int32"
    assert encoder.output["sequence_output"].shape == (None, length, HIDDEN)


def test_fixed_and_dynamic_length_agree(encoder):
    fixed = make_encoder(sequence_length=7)
    ids = make_ids(7, 4)
    for name in ("sequence_output", "pooled_output"):
        np.testing.assert_allclose(
            to_numpy(fixed(ids)[name]), to_numpy(encoder(ids)[name]), atol=1e-6
        )
    with pytest.raises(ValueError, match=r"7.*8"):
        fixed(make_ids(8))


def test_padding_a_row_changes_nothing(encoder):
    ids = make_ids(5)
    padded = encoder({name: np.pad(value, ((0, 0), (0, 6))) for name, value in ids.items()})
    alone = encoder(ids)
    np.testing.assert_allclose(
        to_numpy(padded["sequence_output"])[:, :5], to_numpy(alone["sequence_output"]), atol=1e-6
    )
    np.testing.assert_allclose(
        to_numpy(padded["pooled_output"]), to_numpy(alone["pooled_output"]), atol=1e-6
    )


@pytest.mark.parametrize("name", ["token_ids", "segment_ids", "order"])
def test_every_input_matters(encoder, name):
    ids = make_ids(6)
    changed = dict(ids)
    if name == "order":
        changed["token_ids"] = ids["token_ids"][:, [0, 2, 1, 3, 4, 5]]
    else:
        changed[name] = ids[name].copy()
        changed[name][0, 5] = 0
    before, after = (to_numpy(encoder(x)["pooled_output"]) for x in (ids, changed))
    assert np.abs(before - after).max() > 1e-4


def test_predict_in_batches_of_unequal_size(encoder):
    ids = make_ids(7, 4, 2, 5, 1)
    whole = encoder(ids)
    batches = encoder.predict(ids, batch_size=2, verbose=0)
    np.testing.assert_allclose(
        batches["pooled_output"], to_numpy(whole["pooled_output"]), atol=1e-6
    )
    np.testing.assert_allclose(
        batches["hidden_states"][1], to_numpy(whole["hidden_states"][1]), atol=1e-6
    )


@pytest.mark.parametrize("kind", ["int64", "bool mask"])
def test_ids_in_other_forms(encoder, kind):
    ids = make_ids(5, 3)
    other = {
        "int64": lambda: {name: value.astype(np.int64) for name, value in ids.items()},
        "bool mask": lambda: ids | {"padding_mask": ids["padding_mask"].astype(bool)},
    }[kind]()
    np.testing.assert_array_equal(
        to_numpy(encoder(other)["pooled_output"]), to_numpy(encoder(ids)["pooled_output"])
    )


POLICIES = {"float32": 0, "mixed_bfloat16": 0.15, "mixed_float16": 0.02}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("length", [None, 8])
def test_dtype_policies(policy, length):
    """BC-X03: one full row, one of 3 tokens in 8, one of padding alone."""
    encoder = make_encoder(
        dtype=policy, sequence_length=length, output_hidden_states=True, output_attentions=True
    )
    ids = make_ids(8, 3, 0)
    outputs = encoder(ids)
    assert all(weight.dtype == "float32" for weight in encoder.weights)
    for tensor in keras.tree.flatten(outputs):
        assert tensor.dtype == policy.removeprefix("mixed_")
        assert np.isfinite(to_numpy(tensor)).all()
    for probabilities in outputs["attentions"]:
        assert (to_numpy(probabilities)[1, ..., 3:] == 0).all()
    exact = make_encoder()(ids)
    real = ids["padding_mask"] == 1
    difference = to_numpy(outputs["sequence_output"]) - to_numpy(exact["sequence_output"])
    assert np.abs(difference[real]).max() <= POLICIES[policy]
    changed = dict(ids)
    changed["token_ids"] = np.where(real, ids["token_ids"], 9).astype(np.int32)
    after = to_numpy(encoder(changed)["sequence_output"])
    before = to_numpy(outputs["sequence_output"])
    assert np.abs(before - after)[real].max() < 1e-3
    assert np.abs(before - after)[:2][~real[:2]].max() > 0.1


@pytest.mark.parametrize("policy", list(POLICIES)[1:])
def test_the_global_policy_is_the_default(policy):
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        encoder = kbz.BertEncoder(tiny_config())
    finally:
        keras.config.set_dtype_policy(before)
    assert encoder.output["pooled_output"].dtype == policy.removeprefix("mixed_")
    again = kbz.BertEncoder.from_config(encoder.get_config())
    assert again.output["pooled_output"].dtype == policy.removeprefix("mixed_")


def test_narrow_embeddings_are_projected():
    encoder = make_encoder(changes={"embedding_size": 6})
    assert encoder.token_embedding.embeddings.shape[1] == 6
    assert encoder(make_ids(5))["sequence_output"].shape == (1, 5, HIDDEN)
    task = kbz.Pretraining(encoder)
    logits = task(make_ids(5) | {"masked_positions": np.array([[1, 2]], np.int32)})
    assert logits["masked_lm_logits"].shape == (1, 2, encoder.config.vocab_size)


def test_initial_weights():
    encoder = kbz.BertEncoder(tiny_config(hidden_size=128, vocab_size=500, num_attention_heads=2))
    for weight in encoder.weights:
        values, end = to_numpy(weight), weight.path.split("/")[-1]
        if end in ("bias", "beta", "gamma"):
            assert (values == (end == "gamma")).all()
        elif values.size > 1000:
            assert np.abs(values).max() <= 0.04
            assert values.std() == pytest.approx(0.0176, rel=0.05)  # 0.02, truncated.


def test_every_normalization_has_the_epsilon_of_the_config():
    task = kbz.Pretraining(kbz.BertEncoder(tiny_config(layer_norm_eps=1e-5)))
    layers = [
        layer
        for layer in task._flatten_layers()
        if isinstance(layer, keras.layers.LayerNormalization)
    ]
    assert len(layers) == 2 * LAYERS + 2
    assert {layer.epsilon for layer in layers} == {1e-5}


def test_a_config_is_asked_for():
    with pytest.raises(ValueError, match=r"`config` must be an EncoderConfig.*768"):
        kbz.BertEncoder({"hidden_size": 768})


@pytest.mark.parametrize("kwargs", [{}, {"sequence_length": 6, "dtype": "mixed_bfloat16"}])
def test_round_trip_of_the_config(kwargs):
    encoder = kbz.BertEncoder(
        tiny_config(hidden_act="gelu_new"), output_attentions=True, name="mine", **kwargs
    )
    encoder.trainable = False
    again = kbz.BertEncoder.from_config(json.loads(json.dumps(encoder.get_config())))
    assert again.get_config() == encoder.get_config()
    assert again.config == encoder.config
    assert again.name == "mine"
    assert again.trainable is False
    assert again.output.keys() == encoder.output.keys()


RELOAD = """
import sys
import numpy as np
import keras
import keras_bert_zoo
for name in ("dynamic", "fixed", "causal"):
    encoder = keras.models.load_model(f"{sys.argv[1]}/{name}.keras")
    assert type(encoder) is keras_bert_zoo.BertEncoder
    with np.load(f"{sys.argv[1]}/{name}.npz") as file:
        ids = {name: file[name] for name in ("token_ids", "segment_ids", "padding_mask")}
        outputs = encoder.predict(ids, verbose=0)
        print(max(float(abs(outputs[name] - file[name]).max()) for name in outputs))
    print(encoder.config, encoder.sequence_length)
"""


def test_keras_file_in_a_fresh_process(run_python, tmp_path):
    ids = make_ids(7, 4)
    configs = []
    for name, length in (("dynamic", None), ("fixed", 7), ("causal", 7)):
        changes = {"hidden_act": "gelu_new", "is_decoder": name == "causal"}
        encoder = make_encoder(sequence_length=length, changes=changes)
        encoder.save(tmp_path / f"{name}.keras")
        np.savez(tmp_path / f"{name}.npz", **ids, **encoder.predict(ids, verbose=0))
        configs.append(f"{encoder.config} {length}")
    lines = run_python(RELOAD, tmp_path).splitlines()[-6:]
    assert [float(line) for line in lines[::2]] == [0, 0, 0]
    assert lines[1::2] == configs


def test_weights_file(tmp_path):
    before, after = make_encoder(seed=1), make_encoder(seed=2)
    before.save_weights(tmp_path / "encoder.weights.h5")
    after.load_weights(tmp_path / "encoder.weights.h5")
    for one, other in zip(before.weights, after.weights, strict=True):
        np.testing.assert_array_equal(to_numpy(one), to_numpy(other))


def test_dropout_is_active_in_training_alone(encoder):
    ids = make_ids(6)
    still = to_numpy(encoder(ids)["sequence_output"])
    np.testing.assert_array_equal(still, to_numpy(encoder(ids, training=False)["sequence_output"]))
    noisy = to_numpy(encoder(ids, training=True)["sequence_output"])
    assert np.abs(noisy - still).max() > 0.1
    without = make_encoder(
        changes={"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    )
    np.testing.assert_allclose(
        to_numpy(without(ids, training=True)["sequence_output"]), still, atol=1e-6
    )


def test_an_encoder_without_blocks():
    """The embeddings alone, as a baseline."""
    encoder = make_encoder(changes={"num_hidden_layers": 0})
    assert encoder(make_ids(5))["sequence_output"].shape == (1, 5, HIDDEN)
    assert not any("block" in weight.path for weight in encoder.weights)
