"""More tokens than positions are an error, however the encoder is run: case BC-P04."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from tiny import VOCABULARY

import keras_bert_zoo as kbz

NAMES = ("token_ids", "segment_ids", "padding_mask")


def make_encoder(sequence_length=None):
    config = kbz.EncoderConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        max_position_embeddings=512,
    )
    return kbz.BertEncoder(config, sequence_length=sequence_length)


@pytest.fixture(scope="module")
def encoder():
    return make_encoder()


def ids(length, rows=1):
    return {name: tf.ones((rows, length), tf.int32) for name in NAMES}


def specs(length):
    return {name: tf.TensorSpec((None, length), tf.int32) for name in NAMES}


TOO_LONG = r"(?s)513.*512|512.*513"


def test_the_longest_input_runs(encoder):
    assert encoder(ids(512))["sequence_output"].shape == (1, 512, 8)


def test_eager(encoder):
    with pytest.raises(ValueError, match=TOO_LONG):
        encoder(ids(513))


def test_predict(encoder):
    arrays = {name: value.numpy() for name, value in ids(513).items()}
    with pytest.raises(ValueError, match=TOO_LONG):
        make_encoder().predict(arrays, verbose=0)


def test_predict_after_other_lengths():
    """By then Keras may have traced a graph of dynamic length."""
    encoder = make_encoder()
    for length in (3, 4, 5, 512):
        arrays = {name: value.numpy() for name, value in ids(length).items()}
        assert encoder.predict(arrays, verbose=0)["sequence_output"].shape[1] == length
    arrays = {name: value.numpy() for name, value in ids(513).items()}
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError), match=TOO_LONG):
        encoder.predict(arrays, verbose=0)


def test_an_encoder_of_fixed_length():
    with pytest.raises(ValueError, match=TOO_LONG):
        make_encoder(512)(ids(513))


def test_a_graph_of_fixed_length(encoder):
    with pytest.raises(ValueError, match=TOO_LONG):
        tf.function(lambda x: encoder(x), input_signature=[specs(513)]).get_concrete_function()


def test_a_graph_of_dynamic_length(encoder):
    run = tf.function(lambda x: encoder(x)["sequence_output"], input_signature=[specs(None)])
    assert run(ids(512)).shape == (1, 512, 8)
    with pytest.raises(tf.errors.InvalidArgumentError, match=TOO_LONG):
        run(ids(513))


def test_xla_of_known_length(encoder):
    run = tf.function(lambda x: encoder(x)["sequence_output"], jit_compile=True)
    assert run(ids(512)).shape == (1, 512, 8)
    with pytest.raises(ValueError, match=TOO_LONG):
        run(ids(513))


def test_xla_of_dynamic_length_never_gives_a_silent_row(encoder):
    run = tf.function(
        lambda x: encoder(x)["sequence_output"], jit_compile=True, input_signature=[specs(None)]
    )
    assert run(ids(512)).shape == (1, 512, 8)
    with pytest.raises(tf.errors.InvalidArgumentError, match=TOO_LONG):
        run(ids(513))


@pytest.mark.parametrize("kind", ["encoder", "task"])
def test_compiling_with_xla_needs_a_fixed_length(kind):
    def make(length):
        encoder = make_encoder(length)
        return encoder if kind == "encoder" else kbz.TextClassifier(encoder, labels=["a", "b"])

    with pytest.raises(ValueError, match=r"jit_compile.*fixed length.*sequence_length"):
        make(None).compile(jit_compile=True)
    fixed = make(512)
    fixed.compile(jit_compile=True)
    arrays = {name: value.numpy() for name, value in ids(512).items()}
    outputs = keras.tree.flatten(fixed.predict(arrays, verbose=0))
    assert all(np.isfinite(output).all() for output in outputs)
    # Keras may trace a second length as a dynamic one.
    arrays = {name: value.numpy() for name, value in ids(513).items()}
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError), match=TOO_LONG):
        fixed.predict(arrays, verbose=0)


def test_keras_never_chooses_xla_for_a_dynamic_length():
    encoder = make_encoder()
    keras.Model.compile(encoder, jit_compile="auto")
    assert encoder.jit_compile is False


@pytest.mark.parametrize("length", [600, 513, 0, -1])
def test_a_fixed_length_beyond_the_table_is_refused(length):
    with pytest.raises(ValueError, match=rf"512.*Received: {length}"):
        make_encoder(length)


def test_long_texts_are_cut():
    preprocessor = kbz.TextPreprocessor(kbz.WordPieceTokenizer(VOCABULARY), 512)
    task = kbz.TextClassifier(make_encoder(), labels=["a", "b"], preprocessor=preprocessor)
    assert task.predict(["good film " * 600], verbose=0).shape == (1, 2)
    with pytest.raises(ValueError, match=r"600.*512"):
        kbz.TextClassifier(
            make_encoder(),
            labels=["a", "b"],
            preprocessor=kbz.TextPreprocessor(kbz.WordPieceTokenizer(VOCABULARY), 600),
        )
