"""An encoder in which a token sees only itself and those before it (section 5.1, "LTR")."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf
from tiny import tiny_config, tiny_preprocessor

import keras_bert_zoo as kbz

SIZES = (9, 5, 1, 0)


def encoder(**settings):
    keras.utils.set_random_seed(1)
    return kbz.BertEncoder(dataclasses.replace(tiny_config(), is_decoder=True), **settings)


def batch(seed=0):
    rng = np.random.default_rng(seed)
    mask = (np.arange(9) < np.array(SIZES)[:, None]).astype("int32")
    ids = rng.integers(5, 20, (len(SIZES), 9)).astype("int32") * mask
    return {"token_ids": ids, "segment_ids": np.zeros_like(ids), "padding_mask": mask}


def numpy_of(outputs):
    return {name: keras.ops.convert_to_numpy(outputs[name]) for name in outputs}


def test_what_follows_changes_nothing_before_it():
    model = encoder()
    x = batch()
    before = numpy_of(model(x))["sequence_output"]
    for place in range(1, 9):
        changed = {name: array.copy() for name, array in x.items()}
        changed["token_ids"][0, place:] = 5 + (changed["token_ids"][0, place:] - 4) % 15
        after = numpy_of(model(changed))["sequence_output"]
        np.testing.assert_allclose(after[0, :place], before[0, :place], atol=1e-6)
        assert np.abs(after[0, place:] - before[0, place:]).max(-1).min() > 1e-3


def test_the_pooled_output_is_of_the_last_real_token():
    model = encoder()
    outputs = numpy_of(model(batch()))
    dense = model.get_layer("pooler").dense
    for row, size in enumerate(SIZES):
        last = outputs["sequence_output"][row, max(size - 1, 0)]
        np.testing.assert_allclose(outputs["pooled_output"][row], dense(last[None])[0], atol=1e-6)
    assert np.isfinite(outputs["sequence_output"]).all()
    both = kbz.BertEncoder(tiny_config())
    both.set_weights(model.get_weights())
    outputs = numpy_of(both(batch()))
    first = both.get_layer("pooler").dense(outputs["sequence_output"][:, 0])
    np.testing.assert_allclose(outputs["pooled_output"], first, atol=1e-6)


def test_xla_states_and_a_file(tmp_path, run_python):
    x = batch()
    model = encoder(sequence_length=9, output_hidden_states=True, output_attentions=True)
    outputs = model(x)
    for shares in outputs["attentions"]:
        shares = keras.ops.convert_to_numpy(shares)
        assert (np.triu(shares[0], 1) == 0).all()
        np.testing.assert_allclose(shares[:3].sum(-1), 1, atol=1e-5)
    compiled = tf.function(model, jit_compile=True)(x)
    np.testing.assert_allclose(compiled["pooled_output"], outputs["pooled_output"], atol=1e-5)
    model.save(tmp_path / "model.keras")
    np.savez(tmp_path / "x.npz", **x)
    run_python(
        "import keras, numpy as np, keras_bert_zoo\n"
        f"model = keras.saving.load_model({str(tmp_path / 'model.keras')!r})\n"
        "assert model.config.is_decoder\n"
        f"x = dict(np.load({str(tmp_path / 'x.npz')!r}))\n"
        f"np.save({str(tmp_path / 'y.npy')!r}, model(x)['pooled_output'])\n"
    )
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), outputs["pooled_output"], atol=1e-6)


def test_a_language_model_reads_no_gaps(tmp_path):
    task = kbz.MaskedLM(encoder(), tiny_preprocessor())
    assert task.architecture == "BertLMHeadModel"
    for refused in (lambda: task.fill(["a [MASK]"]), lambda: task.export(tmp_path / "out")):
        with pytest.raises(ValueError, match="only what stands before"):
            refused()
    task.save_to_preset(tmp_path / "preset")
    again = kbz.MaskedLM.from_preset(tmp_path / "preset")
    assert again.encoder.config == task.encoder.config
    assert kbz.Pretraining(encoder(), next_sentence=False).architecture == "BertLMHeadModel"
    assert kbz.Pretraining(encoder()).architecture == "BertForPreTraining"


def test_it_learns_to_count_left_to_right():
    """Tokens that each follow from the one before are predicted, the first of a row cannot be."""
    keras.utils.set_random_seed(0)
    task = kbz.Pretraining(
        kbz.BertEncoder(tiny_config(is_decoder=True, hidden_dropout_prob=0.0)), next_sentence=False
    )
    start = np.arange(64)[:, None] % 15
    ids = (5 + (start + np.arange(12)) % 15).astype("int32")
    x = {
        "token_ids": ids,
        "segment_ids": np.zeros_like(ids),
        "padding_mask": np.ones_like(ids),
        "masked_positions": np.tile(np.arange(11, dtype="int32"), (64, 1)),
    }
    y = {"masked_ids": ids[:, 1:], "masked_weights": np.ones((64, 11), "float32")}
    task.compile(kbz.adamw(1e-2, 60), clip_norm=1.0)
    rows = tf.data.Dataset.from_tensors((x, y)).repeat(60)
    task.fit(rows, verbose=0)
    assert task.evaluate(rows.take(1), verbose=0, return_dict=True)["masked_lm_accuracy"] > 0.95
