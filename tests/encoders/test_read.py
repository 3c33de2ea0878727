"""What a head reads of an encoder is what the whole encoder gives there, to the gradient."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from tiny import tiny_config
from tiny_tasks import trained

import keras_bert_zoo as kbz
from keras_bert_zoo.encoders.transformer import encoder_inputs

MASK = (np.arange(8) < np.array([8, 5, 1, 0])[:, None]).astype("int32")
POSITIONS = np.array([[7, 0, 3], [4, 4, 0], [0, 0, 0], [1, 2, 0]], "int32")


def made(policy="float32", length=None, **changes):
    changes = {"num_hidden_layers": 2, "hidden_dropout_prob": 0.0} | changes
    config = tiny_config(attention_probs_dropout_prob=0.0, **changes)
    return trained(kbz.BertEncoder(config, sequence_length=length, dtype=policy))


def ids():
    random = np.random.default_rng(1)
    return {
        "token_ids": random.integers(5, 25, MASK.shape).astype("int32"),
        "segment_ids": random.integers(0, 2, MASK.shape).astype("int32"),
        "padding_mask": MASK,
    }


def reader(encoder, with_positions=True, pooled=True):
    inputs = encoder_inputs(encoder.sequence_length)
    positions = keras.Input((None,), dtype="int32", name="at") if with_positions else None
    outputs = encoder.read(inputs, positions, pooled)
    return keras.Model(inputs | ({"at": positions} if with_positions else {}), outputs)


def whole(encoder, inputs):
    outputs = encoder(inputs)
    return {
        "sequence_output": tf.gather(outputs["sequence_output"], POSITIONS, batch_dims=1),
        "pooled_output": outputs["pooled_output"],
    }


def to_numpy(x):
    return keras.ops.convert_to_numpy(keras.ops.cast(tf.convert_to_tensor(x), "float32"))


@pytest.mark.parametrize("length", [None, 8])
@pytest.mark.parametrize("is_decoder", [False, True])
@pytest.mark.parametrize("blocks", [0, 1, 2])
def test_values_and_gradients(blocks, is_decoder, length):
    encoder = made(num_hidden_layers=blocks, is_decoder=is_decoder, length=length)
    read, found, slopes = reader(encoder), [], []
    for run in (lambda: whole(encoder, ids()), lambda: read(ids() | {"at": POSITIONS})):
        with tf.GradientTape() as tape:
            outputs = run()
            # Its slope differs from place to place.
            total = tf.add_n([tf.reduce_sum(tf.sin(3 * out)) for out in outputs.values()])
        found.append(outputs)
        slopes.append(tape.gradient(total, encoder.trainable_weights))
    for name in ("sequence_output", "pooled_output"):
        np.testing.assert_allclose(to_numpy(found[1][name]), to_numpy(found[0][name]), atol=2e-6)
    for one, other in zip(*slopes, strict=True):
        np.testing.assert_allclose(to_numpy(one), to_numpy(other), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_half_precision(policy):
    encoder = made(policy)
    expected, found = whole(encoder, ids()), reader(encoder)(ids() | {"at": POSITIONS})
    for name, value in expected.items():
        assert found[name].dtype == value.dtype
        np.testing.assert_allclose(to_numpy(found[name]), to_numpy(value), atol=0.05)


def test_what_is_not_asked_for_is_not_there():
    encoder, at = made(), {"at": POSITIONS}
    expected = whole(encoder, ids())
    for with_positions, pooled, name in (
        (True, False, "sequence_output"),
        (False, True, "pooled_output"),
    ):
        found = reader(encoder, with_positions, pooled)(ids() | (at if with_positions else {}))
        assert set(found) == {name}
        np.testing.assert_allclose(to_numpy(found[name]), to_numpy(expected[name]), atol=2e-6)


def test_nothing_to_read():
    with pytest.raises(ValueError, match="`positions`"):
        reader(made(), with_positions=False, pooled=False)


@pytest.mark.parametrize("with_positions", [False, True])
def test_two_texts_through_one_encoder_or_two(with_positions):
    first, second = made(), made()
    name = "sequence_output" if with_positions else "pooled_output"
    given = ids() | ({"at": POSITIONS} if with_positions else {})
    for encoders in ((first, first), (first, second)):
        inputs, outputs = [], []
        for encoder in encoders:
            own = {key: keras.Input((None,), dtype="int32") for key in given}
            inputs.append(own)
            ends = {key: x for key, x in own.items() if key != "at"}
            outputs.append(encoder.read(ends, own.get("at"), pooled=not with_positions)[name])
        turned = {key: values[::-1] for key, values in given.items()}
        one, other = keras.Model(inputs, outputs)([given, turned])
        for encoder, found in zip(encoders, (one, other[::-1]), strict=True):
            np.testing.assert_allclose(
                to_numpy(found), to_numpy(whole(encoder, ids())[name]), atol=2e-6
            )


def test_the_last_block_works_for_what_is_read_alone():
    encoder, shapes = made(), []
    for number in range(2):
        layer = encoder.get_layer(f"block_{number}").intermediate
        call = layer.call
        layer.call = lambda x, call=call, **kwargs: (shapes.append(x.shape), call(x, **kwargs))[1]
    read = reader(encoder)
    shapes.clear()
    read(ids() | {"at": POSITIONS})
    assert shapes == [(4, 8, 16), (4, 1 + 3, 16)]


def test_dropout_acts_in_training_alone():
    read = reader(made(hidden_dropout_prob=0.5))
    inputs = ids() | {"at": POSITIONS}
    still, again, noisy = (to_numpy(read(inputs, training=t)["pooled_output"]) for t in (0, 0, 1))
    np.testing.assert_array_equal(still, again)
    assert np.abs(still - noisy).max() > 0.1


def test_a_frozen_encoder_is_frozen_in_its_task():
    encoder = made()
    task = kbz.TextClassifier(encoder, ["a", "b"])
    encoder.trainable = False
    assert {w.path.split("/")[0] for w in task.trainable_weights} == {"logits"}
    encoder.trainable = True
    encoder.get_layer("block_1").trainable = False
    paths = {w.path.split("/")[0] for w in task.trainable_weights}
    assert "block_0" in paths and "block_1" not in paths
    assert len(task.weights) == len({id(w) for w in task.weights}) == len(encoder.weights) + 2
