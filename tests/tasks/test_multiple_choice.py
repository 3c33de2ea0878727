"""`MultipleChoice`: any number of choices, choices that are none, texts in a table."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from tiny import tiny_encoder
from tiny_heads import batch_for, tiny_head

import keras_bert_zoo as kbz
from keras_bert_zoo.tasks.multiple_choice import MultipleChoice

TEXTS = {
    "text_a": ["a cup of", "the capital of france is", "what a"],
    "text_b": [["film", "tea"], ["tea .", "film .", "paris ."], ["film !", "of !", "is ."]],
}
TABLE = {
    "text_a": np.array(TEXTS["text_a"]),
    "text_b": np.array([[*row, ""][:3] for row in TEXTS["text_b"]]),
}
RIGHT = [1, 2, 0]


def made(**settings):
    keras.utils.set_random_seed(0)
    return tiny_head("choice", **settings)


def test_it_learns_to_choose(tmp_path):
    task = made()
    task.compile(kbz.adamw(1e-2, 60), clip_norm=1.0)
    task.fit(TEXTS, RIGHT, batch_size=3, epochs=60, verbose=0)
    assert task.evaluate(TEXTS, RIGHT, verbose=0, return_dict=True)["accuracy"] == 1
    logits = task.predict(TEXTS, verbose=0)
    assert logits.shape == (3, 3)
    task.export(tmp_path / "1")
    answer = kbz.load_saved_model(tmp_path / "1").signatures["serving_default"](
        text_a=tf.constant(TABLE["text_a"]), text_b=tf.constant(TABLE["text_b"])
    )
    assert answer["choice"].numpy().tolist() == RIGHT
    shares = answer["probabilities"].numpy()
    assert shares[0, 2] == 0
    np.testing.assert_allclose(shares.sum(axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(shares[0, :2], tf.nn.softmax(logits[0, :2]), atol=1e-5)
    np.testing.assert_allclose(answer["logits"], logits, atol=1e-5)


def test_a_choice_scores_as_a_pair_does():
    """The same weights as a regression over single pairs."""
    task = made()
    pairs = kbz.TextClassifier(task.encoder, labels=None, preprocessor=task.preprocessor)
    kernel = np.random.default_rng(0).normal(size=(16, 1))
    for part in (task, pairs):
        part.get_layer("logits").kernel.assign(kernel)
    logits = task.predict(TEXTS, verbose=0)
    for row, (text, choices) in enumerate(zip(*TEXTS.values(), strict=True)):
        for place, choice in enumerate(choices):
            score = pairs.predict([(text, choice)], verbose=0)[0, 0]
            assert logits[row, place] == pytest.approx(score, abs=1e-5)


def test_the_encoder_runs_once_over_all_choices():
    task, shapes = made(), []
    table = task.encoder.token_embedding
    call = table.call
    table.call = lambda ids, **kwargs: (shapes.append(ids.shape), call(ids, **kwargs))[1]
    x, _ = batch_for("choice")
    task(x)
    assert shapes == [(24, 12)]


@pytest.mark.parametrize("length", [None, 12])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_any_number_of_choices(count, length):
    task = made(encoder=tiny_encoder(sequence_length=length))
    task.compile("sgd")
    x, _ = batch_for("choice")
    x = {name: np.repeat(part[:, :1], count, axis=1) for name, part in x.items()}
    logits = task.predict(x, verbose=0)
    assert logits.shape == (8, count)
    loss = task.evaluate(x, np.zeros(8, int), verbose=0)[0]
    assert loss == pytest.approx(np.log(count), abs=1e-5)


def test_padding_is_no_choice():
    task = made()
    task.compile("sgd")
    x, y = batch_for("choice")
    wider = {name: np.concatenate([part, 0 * part], axis=1) for name, part in x.items()}
    expected = task.evaluate(x, y, verbose=0)
    assert task.evaluate(wider, y, verbose=0) == pytest.approx(expected, abs=1e-5)
    answer, wide = task.serve(x), task.serve(wider)
    np.testing.assert_array_equal(answer["choice"], wide["choice"])
    np.testing.assert_allclose(wide["probabilities"][:, :3], answer["probabilities"], atol=1e-6)
    assert not wide["probabilities"].numpy()[:, 3:].any()
    # A row has its logit all the same, and no row at all is no choice.
    assert np.isfinite(wide["logits"]).all()
    none = task.serve({name: 0 * part for name, part in x.items()})
    assert none["choice"].numpy().tolist() == [-1] * 8
    assert not none["probabilities"].numpy().any()


def test_all_forms_of_texts_give_the_same_figures():
    task = made()
    task.compile("sgd")
    ids = task.preprocessor(
        {
            "text_a": np.repeat(TABLE["text_a"], 3).tolist(),
            "text_b": TABLE["text_b"].ravel().tolist(),
        }
    )
    ids = {name: rows.numpy().reshape(3, 3, -1) for name, rows in ids.items()}
    for rows in ids.values():
        rows[0, 2] = 0
    expected = task.evaluate(ids, np.array(RIGHT), verbose=0)
    slices = tf.data.Dataset.from_tensor_slices
    backwards = {"text_b": TABLE["text_b"], "text_a": TABLE["text_a"]}
    forms = [
        (ids, RIGHT),
        (TEXTS, RIGHT),
        (TEXTS, np.array(RIGHT)[:, None]),
        (TABLE, tf.constant(RIGHT)),
        (backwards, RIGHT),
        (slices((TABLE, RIGHT)).batch(2), None),
        (slices((backwards, RIGHT)).batch(2), None),
        (slices((ids, RIGHT)).batch(2), None),
    ]
    for x, y in forms:
        assert task.evaluate(x, y, verbose=0) == pytest.approx(expected, abs=1e-5), x
        if y is not None:
            logs = task.fit(ids, RIGHT, validation_data=(x, y), verbose=0).history
            expected = task.evaluate(ids, RIGHT, verbose=0)
            assert logs["val_loss"][0] == pytest.approx(expected[0], abs=1e-5)
    np.testing.assert_allclose(
        task.predict(slices(TABLE).batch(2), verbose=0), task.predict(TEXTS, verbose=0), atol=1e-6
    )
    logs = task.fit(TEXTS, RIGHT, validation_split=1 / 3, verbose=0).history
    assert "val_loss" in logs


def test_no_texts():
    assert made().predict({"text_a": [], "text_b": []}, verbose=0).shape == (0, 0)


@pytest.mark.parametrize(
    "x, message",
    [
        (["a cup of"], "a dict of `text_a`, a list of strings, and `text_b`, a list of lists"),
        ([("a cup of", "tea")], "a dict of `text_a`"),
        ({"text": ["tea"]}, "a dict of `text_a`"),
        ({"text_a": ["a cup of"], "text_b": ["tea"]}, "Item 0 is: 'tea'"),
        ({"text_a": ["a cup of"], "text_b": [["tea"], ["cup"]]}, "1 texts and 2 lists"),
        ({"text_a": ["a cup of"], "text_b": [["tea", 3]]}, "Item 1 is 3"),
        ({"text_a": ["a cup of"], "text_b": [["tea", "\ud800"]]}, "half a surrogate pair"),
    ],
)
def test_bad_texts(x, message):
    task = made()
    task.compile("sgd")
    for call in (lambda: task.predict(x), lambda: task.fit(x, [0] * len(x), verbose=0)):
        with pytest.raises(ValueError, match=message):
            call()


def test_datasets_come_in_batches():
    task = made()
    task.compile("sgd")
    rows = tf.data.Dataset.from_tensor_slices
    with pytest.raises(ValueError, match="a dataset of batches"):
        task.fit(rows((TABLE, RIGHT)), verbose=0)
    with pytest.raises(ValueError, match="no preprocessor"):
        MultipleChoice(tiny_encoder()).predict(TEXTS)


@pytest.mark.parametrize("labels", [[3, 0], [-1, 0], [2, 0]])
def test_a_label_is_a_choice_that_is_there(labels):
    task = made()
    task.compile("sgd")
    texts = {name: part[:2] for name, part in TEXTS.items()}
    with pytest.raises(tf.errors.InvalidArgumentError, match="a choice that is there"):
        task.evaluate(texts, labels, verbose=0)


def test_bad_labels():
    task = made()
    task.compile("sgd")
    for labels in (np.eye(3), [0.0, 1.0, 2.0], ["a", "b", "c"]):
        with pytest.raises(ValueError, match="number of the right choice"):
            task.fit(TEXTS, labels, verbose=0)
    with pytest.raises(ValueError, match="needs labels"):
        task.fit(TEXTS, verbose=0)
    with pytest.raises(ValueError, match=r"SparseCategoricalCrossentropy\(from_logits=True\)"):
        task.compile("sgd", loss="sparse_categorical_crossentropy")


def test_another_loss():
    task, (x, y) = made(), batch_for("choice")
    task.compile("sgd")
    expected = task.evaluate(x, y, verbose=0)
    task.compile("sgd", loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    assert task.evaluate(x, y, verbose=0) == pytest.approx(expected, abs=1e-6)
