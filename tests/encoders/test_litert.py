"""A fixed-length encoder converts to LiteRT with built-in operations alone."""

import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf
from tiny import tiny_config

import keras_bert_zoo as kbz

LENGTH = 12


@pytest.mark.parametrize("hidden_act", ["gelu", "gelu_new"])
def test_same_outputs_and_no_flex_operations(tmp_path, hidden_act):
    encoder = kbz.BertEncoder(
        tiny_config(hidden_size=24, num_attention_heads=3, hidden_act=hidden_act),
        sequence_length=LENGTH,
    )
    random = np.random.default_rng(0)
    for weight in encoder.weights:
        base = 1 if weight.path.endswith("gamma") else 0
        weight.assign(base + random.normal(scale=0.2, size=weight.shape))
    archive = keras.export.ExportArchive()
    archive.track(encoder)
    archive.add_endpoint(
        "serving_default",
        lambda token_ids, segment_ids, padding_mask: encoder(
            {"token_ids": token_ids, "segment_ids": segment_ids, "padding_mask": padding_mask}
        ),
        input_signature=[
            tf.TensorSpec((2, LENGTH), tf.int32, name)
            for name in ("token_ids", "segment_ids", "padding_mask")
        ],
    )
    archive.write_out(str(tmp_path / "saved"), verbose=False)
    converter = tf.lite.TFLiteConverter.from_saved_model(str(tmp_path / "saved"))
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
    content = converter.convert()
    with warnings.catch_warnings():  # tf.lite says that it will move to a package of its own.
        warnings.simplefilter("ignore")
        interpreter = tf.lite.Interpreter(model_content=content)
    names = {operation["op_name"] for operation in interpreter._get_ops_details()}
    assert "SOFTMAX" in names
    assert not [name for name in names if name.startswith("Flex")]
    ids = {
        "token_ids": random.integers(5, 25, (2, LENGTH)).astype(np.int32),
        "segment_ids": np.array([[0] * 5 + [1] * 7, [0] * LENGTH], np.int32),
        "padding_mask": np.array([[1] * LENGTH, [1] * 8 + [0] * 4], np.int32),
    }
    converted, ours = interpreter.get_signature_runner()(**ids), encoder(ids)
    real = ids["padding_mask"] == 1
    np.testing.assert_allclose(
        converted["sequence_output"][real],
        keras.ops.convert_to_numpy(ours["sequence_output"])[real],
        atol=1e-5,
    )
    np.testing.assert_allclose(
        converted["pooled_output"], keras.ops.convert_to_numpy(ours["pooled_output"]), atol=1e-5
    )
