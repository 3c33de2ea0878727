"""`FeatureTagger`: a frozen encoder, its layers joined, a BiLSTM that learns; saved, exported."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from tiny import tiny_config, tiny_encoder, tiny_preprocessor

import keras_bert_zoo as kbz
from keras_bert_zoo.tasks.feature_tagger import FeatureTagger

LABELS = ["O", "B-LOC", "I-LOC"]
SENTENCES = [
    ["paris", "is", "good", "\u200b", "."],
    ["what", "is", "new", "london", "?"],
    ["the", "capital", "of", "france", "is", "paris", ".", "good", "films", ",", "bad", "teas"],
]
TAGS = [
    ["B-LOC", "O", "O", "O", "O"],
    ["O", "O", "B-LOC", "I-LOC", "O"],
    ["O", "O", "O", "B-LOC", "O", "B-LOC", "O", "O", "O", "O", "O", "O"],
]


def made(length=10, encoder=None, **settings):
    keras.utils.set_random_seed(5)
    # A large rate of dropout would show.
    encoder = encoder or kbz.BertEncoder(
        tiny_config(hidden_dropout_prob=0.5, initializer_range=0.2), output_hidden_states=True
    )
    settings = {"units": 12, "dropout": 0.0} | settings
    return FeatureTagger(encoder, LABELS, tiny_preprocessor(length), **settings)


def test_it_learns_and_its_encoder_does_not(tmp_path):
    task = made(combine="mix")
    before = task.encoder.get_weights()
    task.compile(kbz.adamw(2e-2, 150, 10), clip_norm=1.0)
    task.fit(SENTENCES, TAGS, epochs=150, batch_size=4, verbose=0)
    assert task.tag(SENTENCES) == TAGS
    for old, new in zip(before, task.encoder.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)
    trained = {weight.path.split("/")[0] for weight in task.trainable_weights}
    assert trained == {"scalar_mix", "lstm_0", "lstm_1", "tag_logits"}
    assert np.ptp(task.get_layer("scalar_mix").scores.numpy()) > 0

    task.save(tmp_path / "tagger.keras")
    loaded = keras.saving.load_model(tmp_path / "tagger.keras")
    assert loaded.tag(SENTENCES) == TAGS
    x, _ = task.read_columns(SENTENCES, TAGS)
    np.testing.assert_array_equal(loaded(x), task(x))
    assert [w.path for w in loaded.trainable_weights] == [w.path for w in task.trainable_weights]
    loaded.fit(SENTENCES, TAGS, verbose=0)  # With its optimizer.

    task.export(tmp_path / "1")
    served = kbz.load_saved_model(tmp_path / "1").signatures["serving_default"](
        text=tf.constant(["paris is good .", "tea"])
    )
    words = task.tag(["paris is good ."])[0]
    assert served["labels"].numpy()[0, 1:5].astype(str).tolist() == [w["label"] for w in words]
    shares = [word["probability"] for word in words]
    np.testing.assert_allclose(served["probabilities"][0, 1:5], shares, atol=1e-5)


def test_the_encoder_runs_as_in_inference():
    task = made()
    x, y = task.read_columns(SENTENCES, TAGS)
    expected = task(x, training=False)
    np.testing.assert_allclose(task(x, training=True), expected, atol=1e-6)
    task.compile("sgd")
    _, gradients, _, outputs = task.compute_gradients(
        tf.nest.map_structure(tf.constant, x), tf.constant(y)
    )
    np.testing.assert_allclose(outputs, expected, atol=1e-6)
    assert len(gradients) == len(task.trainable_weights) == 14
    # Not even where somebody sets it free.
    task.encoder.trainable = True
    assert len(task.trainable_weights) > 14
    _, gradients, _, _ = task.compute_gradients(
        tf.nest.map_structure(tf.constant, x), tf.constant(y)
    )
    assert sum(gradient is not None for gradient in gradients) == 14
    # Its own dropout is there in training.
    task = made(dropout=0.5)
    assert np.abs(task(x, training=True) - task(x, training=False)).max() > 1e-3


@pytest.mark.parametrize("combine", ["concat", "sum", "mix"])
@pytest.mark.parametrize("layers", [None, [-1], [0, 2], [1, -1, 1]])
def test_layers_are_joined(combine, layers):
    task = made(combine=combine, layers=layers)
    x, _ = task.read_columns(SENTENCES, TAGS)
    states = task.encoder(x)["hidden_states"]
    states = [states[place].numpy() for place in layers or [-2, -1]]
    if combine == "mix":
        scores = np.arange(len(states), dtype="float32")
        task.get_layer("scalar_mix").set_weights([scores, np.array(2.0)])
        shares = np.exp(scores) / np.exp(scores).sum()
        joined = 2 * sum(share * state for share, state in zip(shares, states, strict=True))
    else:
        joined = np.concatenate(states, -1) if combine == "concat" else sum(states)
    first, second = (task.get_layer(f"lstm_{n}") for n in range(2))
    mask = tf.constant(x["padding_mask"] > 0)
    expected = task.get_layer("tag_logits")(second(first(joined, mask=mask), mask=mask))
    np.testing.assert_allclose(task(x), expected, atol=1e-5)


def test_padding_has_no_part():
    task = made()
    x, _ = task.read_columns(SENTENCES, TAGS)
    wider = {name: np.pad(part, [[0, 0], [0, 6]]) for name, part in x.items()}
    real = x["padding_mask"] > 0
    np.testing.assert_allclose(task(wider).numpy()[:, :10][real], task(x).numpy()[real], atol=1e-5)
    # Nor is a word's label a matter of the others in its batch.
    assert task.tag(SENTENCES, batch_size=1) == task.tag(SENTENCES, batch_size=8)


def test_settings():
    task = made(recurrent_layers=1, units=5, layers=[0])
    assert task.get_layer("tag_logits").kernel.shape == (10, 3)
    again = FeatureTagger.from_config(task.get_config())
    assert again.get_config() == task.get_config()
    mixed = made(
        encoder=kbz.BertEncoder(tiny_config(), output_hidden_states=True, dtype="mixed_bfloat16")
    )
    assert mixed(mixed.preprocessor(["tea"])).dtype == "float32"
    mixed.compile("adam")
    mixed.fit(SENTENCES, TAGS, verbose=0)
    for settings, message in (
        ({"encoder": tiny_encoder()}, "`output_hidden_states=True`"),
        ({"layers": [3]}, "from -3 to 2"),
        ({"combine": "mean"}, "Received: 'mean'"),
        ({"units": 0}, "`units` must be"),
        ({"recurrent_layers": 1.0}, "`recurrent_layers` must be"),
    ):
        with pytest.raises(ValueError, match=message):
            made(**settings)


def test_presets(tmp_path):
    source = kbz.TokenClassifier(kbz.BertEncoder(tiny_config()), LABELS, tiny_preprocessor(12))
    source.save_to_preset(tmp_path / "preset")
    with pytest.warns(UserWarning, match="no weights for lstm_0, lstm_1, tag_logits: they start"):
        task = FeatureTagger.from_preset(tmp_path / "preset", labels=LABELS, units=64)
    x = task.preprocessor(["paris is good"])
    np.testing.assert_allclose(
        task.encoder(x)["sequence_output"], source.encoder(x)["sequence_output"], atol=1e-6
    )
    # LSTMs start from Keras's values, wider than BERT's 0.02, and the dense layer from BERT's.
    kernels = {w.path: np.std(w) for w in task.trainable_weights if w.path.endswith("kernel")}
    assert 0.01 < kernels.pop("tag_logits/kernel") < 0.025
    assert len(kernels) == 8
    assert min(kernels.values()) > 0.05
    with pytest.raises(ValueError, match="pass `labels="):
        FeatureTagger.from_preset(tmp_path / "preset")
    with pytest.raises(ValueError, match="no place for a FeatureTagger: save it with `save`"):
        task.save_to_preset(tmp_path / "other")
