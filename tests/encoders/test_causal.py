"""A causal encoder, `is_decoder` in its config: nothing comes from later tokens."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from tiny import tiny_config
from tiny_tasks import equal, trained

import keras_bert_zoo as kbz

LENGTHS = (8, 5, 1, 0)


def make_encoder(is_decoder=True, **kwargs):
    return trained(kbz.BertEncoder(tiny_config(is_decoder=is_decoder), **kwargs))


def make_ids(length=8):
    """Rows of a full length, of 5 tokens and padding, of one token and of padding alone."""
    random = np.random.default_rng(1)
    mask = np.arange(length) < np.array(LENGTHS)[:, None]
    return {
        "token_ids": np.where(mask, random.integers(5, 25, mask.shape), 0).astype(np.int32),
        "segment_ids": random.integers(0, 2, mask.shape).astype(np.int32),
        "padding_mask": mask.astype(np.int32),
    }


def to_numpy(x):
    return keras.ops.convert_to_numpy(keras.ops.cast(x, "float32"))


@pytest.mark.parametrize("length", [None, 8])
@pytest.mark.parametrize("is_decoder", [True, False])
def test_later_tokens_change_nothing(length, is_decoder):
    encoder = make_encoder(
        is_decoder, sequence_length=length, output_hidden_states=True, output_attentions=True
    )
    ids = make_ids()
    changed = {name: value.copy() for name, value in ids.items()}
    changed["token_ids"][0, 3:] += 1
    changed["segment_ids"][0, 3:] ^= 1
    before, after = encoder(ids), encoder(changed)
    # The first states are the embeddings, where no token meets another yet.
    for one, other in zip(before["hidden_states"][1:], after["hidden_states"][1:], strict=True):
        difference = np.abs(to_numpy(one) - to_numpy(other))[0].max(axis=-1)
        assert (difference[3:] > 1e-2).all()
        assert (difference[:3] <= 1e-6).all() == is_decoder
    for probabilities in before["attentions"]:
        later = np.triu(to_numpy(probabilities)[:3], 1)  # A row of padding alone sees anything.
        assert later.any() != is_decoder


@pytest.mark.parametrize("length", [None, 8])
@pytest.mark.parametrize("mask_dtype", ["int32", "bool"])
def test_the_last_real_token_is_pooled(length, mask_dtype):
    encoder, ids = make_encoder(sequence_length=length), make_ids()
    outputs = encoder(ids | {"padding_mask": ids["padding_mask"].astype(mask_dtype)})
    dense = encoder.get_layer("pooler").dense
    vectors = to_numpy(outputs["sequence_output"])[range(4), [7, 4, 0, 0]]
    expected = np.tanh(vectors @ to_numpy(dense.kernel) + to_numpy(dense.bias))
    np.testing.assert_allclose(to_numpy(outputs["pooled_output"]), expected, atol=1e-6)


def test_the_first_token_is_pooled_by_others():
    encoder = make_encoder(is_decoder=False)
    outputs = encoder(make_ids())
    first = encoder.get_layer("pooler")(outputs["sequence_output"])
    np.testing.assert_array_equal(to_numpy(outputs["pooled_output"]), to_numpy(first))


def test_padding_a_row_changes_nothing():
    encoder, ids = make_encoder(), make_ids()
    padded = encoder({name: np.pad(value, ((0, 0), (0, 6))) for name, value in ids.items()})
    alone, real = encoder(ids), ids["padding_mask"] == 1
    np.testing.assert_allclose(
        to_numpy(padded["sequence_output"])[:, :8][real],
        to_numpy(alone["sequence_output"])[real],
        atol=1e-6,
    )
    np.testing.assert_allclose(
        to_numpy(padded["pooled_output"])[:3], to_numpy(alone["pooled_output"])[:3], atol=1e-6
    )


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16", "mixed_float16"])
def test_outputs_and_gradients_are_finite(policy):
    """Also where a row is padding alone."""
    encoder = make_encoder(dtype=policy)
    with tf.GradientTape() as tape:
        outputs = encoder({name: tf.constant(value) for name, value in make_ids().items()})
        loss = sum(tf.reduce_sum(tf.cast(x, tf.float32) ** 2) for x in outputs.values())
    gradients = tape.gradient(loss, encoder.trainable_weights)
    for tensor in (*outputs.values(), *map(tf.convert_to_tensor, gradients)):
        assert np.isfinite(to_numpy(tensor)).all()


def test_xla():
    encoder, ids = make_encoder(sequence_length=8), make_ids()
    expected = encoder.predict(ids, verbose=0)
    encoder.compile(jit_compile=True)
    compiled = encoder.predict(ids, verbose=0)
    real = ids["padding_mask"] == 1
    for name, value in (("sequence_output", real), ("pooled_output", slice(3))):
        np.testing.assert_allclose(compiled[name][value], expected[name][value], atol=1e-5)


def test_round_trip_of_the_config_and_of_a_folder(tmp_path):
    encoder, ids = make_encoder(), make_ids()
    again = kbz.BertEncoder.from_config(json.loads(json.dumps(encoder.get_config())))
    assert again.config == encoder.config and again.config.is_decoder
    assert encoder.resized(40).config.is_decoder
    encoder.save_to_preset(tmp_path / "model")
    assert json.loads((tmp_path / "model" / "config.json").read_text())["is_decoder"] is True
    assert equal(encoder(ids), kbz.BertEncoder.from_preset(tmp_path / "model")(ids))
    other = kbz.BertEncoder.from_preset(tmp_path / "model", config_changes={"is_decoder": False})
    assert not equal(encoder(ids), other(ids))
