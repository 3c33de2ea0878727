"""`TextClassifier`: texts in many forms, labels, regression, saving, export."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from tiny import tiny_classifier, tiny_encoder, tiny_preprocessor

import keras_bert_zoo as kbz

TEXTS = ["good film", "bad film", "good tea", "bad tea", "a good cup", "a bad cup"]
NAMES = ["good", "bad"] * 3


def trained(texts=TEXTS, labels=NAMES, **changes):
    keras.utils.set_random_seed(0)
    task = tiny_classifier(**changes)
    task.compile(kbz.adamw(1e-2, total_steps=60), clip_norm=1.0)
    task.fit(texts, labels, batch_size=3, epochs=30, verbose=0)
    return task


@pytest.fixture(scope="module")
def task():
    return trained()


def test_it_learns_and_classifies(task):
    answers = task.classify(["good", "bad"])
    assert [answer["label"] for answer in answers] == ["good", "bad"]
    for answer in answers:
        assert sum(answer["probabilities"].values()) == pytest.approx(1)
        assert answer["probability"] == max(answer["probabilities"].values())
    assert task.classify([]) == []
    assert task.classify("good")[0]["label"] == "good"


def test_all_forms_of_texts_and_labels_give_the_same_figures(task):
    ids = task.preprocessor(TEXTS)
    numbers = [1, 0] * 3
    slices = tf.data.Dataset.from_tensor_slices
    forms = [
        (TEXTS, NAMES),
        (TEXTS, numbers),
        (np.array(TEXTS), np.array(NAMES)),
        (np.array(TEXTS, dtype=object), np.array(numbers)),
        (tf.constant(TEXTS), tf.constant(NAMES)),
        ({"text": TEXTS}, NAMES),
        (slices((TEXTS, NAMES)), None),
        (slices((TEXTS, numbers)).batch(4), None),
        (slices(({"text": TEXTS}, NAMES)).batch(2), None),
        (ids, np.array(numbers)),
        (slices((ids, numbers)).batch(4), None),
        (slices((ids, NAMES)).batch(4), None),
        (ids, NAMES),
        (ids, np.array(NAMES)),
    ]
    expected = task.evaluate(ids, np.array(numbers), verbose=0, return_dict=True)
    assert expected["accuracy"] == 1
    for x, y in forms:
        figures = task.evaluate(x, y, verbose=0, return_dict=True)
        assert figures == pytest.approx(expected, abs=1e-5), (x, y)


def test_predict_takes_texts_and_ids(task):
    expected = task.predict(task.preprocessor(TEXTS), verbose=0)
    for texts in (TEXTS, np.array(TEXTS), tf.constant(TEXTS), {"text": TEXTS}):
        np.testing.assert_allclose(task.predict(texts, verbose=0), expected, atol=1e-6)
    dataset = tf.data.Dataset.from_tensor_slices(TEXTS)
    np.testing.assert_allclose(task.predict(dataset, verbose=0), expected, atol=1e-6)
    np.testing.assert_allclose(task.predict(dataset.batch(4), verbose=0), expected, atol=1e-6)
    assert task.predict([], verbose=0).shape == (0, 2)


@pytest.mark.parametrize("count, batch_size", [(1, 8), (13, 4)])
@pytest.mark.parametrize("steps", [1, 3])
def test_no_row_is_dropped(count, batch_size, steps):
    # BC-C07: the last, partial batch counts.
    keras.utils.set_random_seed(0)
    task = tiny_classifier()
    task.compile("sgd", steps_per_execution=steps)
    texts = [TEXTS[i % 6] for i in range(count)]
    names = [NAMES[(i // 2) % 6] for i in range(count)]
    logits = task.predict(texts, batch_size=batch_size, verbose=0)
    assert logits.shape == (count, 2)
    for text, row in zip(texts, logits, strict=True):
        np.testing.assert_allclose(task.predict([text], verbose=0)[0], row, atol=1e-5)
    hits = [
        np.argmax(row) == ["bad", "good"].index(n) for row, n in zip(logits, names, strict=True)
    ]
    figures = task.evaluate(texts, names, batch_size=batch_size, verbose=0, return_dict=True)
    assert figures["accuracy"] == pytest.approx(np.mean(hits))


def test_sample_and_class_weights_weigh_the_mean():
    task = tiny_classifier()
    task.compile("sgd")
    single = [task.evaluate([t], [n], verbose=0)[0] for t, n in zip(TEXTS, NAMES, strict=True)]
    weights = np.array([1, 0, 2, 0, 0, 3.0])
    mean = np.average(single, weights=weights)
    assert task.evaluate(TEXTS, NAMES, sample_weight=weights, verbose=0)[0] == pytest.approx(
        mean, abs=1e-5
    )
    logs = task.fit(TEXTS, NAMES, batch_size=6, class_weight={0: 0.0, 1: 1.0}, verbose=0).history
    assert np.isfinite(logs["loss"][0])


def test_pairs_differ_from_single_texts():
    keras.utils.set_random_seed(0)
    task = tiny_classifier()
    task.compile(kbz.adamw(1e-2, 10))
    pairs = (["good film", "bad tea"], ["a cup", "the film"])
    task.fit(pairs, ["good", "bad"], verbose=0)
    assert task.pair is True
    expected = task.predict(task.preprocessor(pairs), verbose=0)
    forms = (
        pairs,
        list(zip(*pairs, strict=True)),
        {"text_a": pairs[0], "text_b": pairs[1]},
    )
    for form in forms:
        np.testing.assert_allclose(task.predict(form, verbose=0), expected, atol=1e-6)
    with pytest.raises(ValueError, match="pairs of texts, and single texts were given"):
        task.predict(["good film"])


def test_regression():
    keras.utils.set_random_seed(0)
    task = tiny_classifier(labels=None)
    task.compile(kbz.adamw(5e-3, 200, 20))
    scores = np.array([5, 0, 5, 0, 5, 0], "float32")
    first = task.evaluate(TEXTS, scores, verbose=0, return_dict=True)
    predicted = task.predict(TEXTS, verbose=0)
    assert predicted.shape == (6, 1)
    assert first["loss"] == pytest.approx(np.mean((predicted[:, 0] - scores) ** 2), rel=1e-4)
    assert first["mean_absolute_error"] == pytest.approx(
        np.mean(np.abs(predicted[:, 0] - scores)), rel=1e-4
    )
    task.fit(TEXTS * 32, np.tile(scores, 32), batch_size=12, epochs=8, verbose=0)
    answers = task.classify(["good film", "bad film"])
    assert answers[0]["score"] > answers[1]["score"] + 1


def test_another_loss():
    task = tiny_classifier(labels=None)
    scores = np.array([5, 0, 5, 0, 5, 0], "float32")
    task.compile("sgd", loss=keras.losses.Huber(delta=1.0))
    loss = task.evaluate(TEXTS, scores, verbose=0)[0]
    predicted = task.predict(TEXTS, verbose=0)
    expected = keras.losses.Huber(delta=1.0)(scores[:, None], predicted)
    assert loss == pytest.approx(float(expected), abs=1e-5)


def test_validation_split_and_data():
    task = tiny_classifier()
    task.compile("sgd")
    split = task.fit(TEXTS, NAMES, validation_split=1 / 3, verbose=0, shuffle=False).history
    assert "val_accuracy" in split
    expected = task.evaluate(TEXTS[4:], NAMES[4:], verbose=0, return_dict=True)
    assert split["val_loss"][0] == pytest.approx(expected["loss"], abs=1e-5)
    for held_out in (
        (TEXTS[4:], NAMES[4:]),
        tf.data.Dataset.from_tensor_slices((TEXTS[4:], NAMES[4:])).batch(1),
        (task.preprocessor(TEXTS[4:]), np.array([1, 0])),
    ):
        logs = task.fit(TEXTS, NAMES, validation_data=held_out, epochs=2, verbose=0).history
        figures = task.evaluate(TEXTS[4:], NAMES[4:], verbose=0, return_dict=True)
        assert logs["val_loss"][-1] == pytest.approx(figures["loss"], abs=1e-5)


@pytest.mark.parametrize(
    "labels, message",
    [
        (["good", "fair"], "Label 1 is: 'fair'"),
        ([0, 2], "Label 1 is: 2"),
        ([0], "2 inputs, but `y` has 1"),
    ],
)
def test_bad_labels(labels, message):
    task = tiny_classifier()
    task.compile("sgd")
    with pytest.raises(ValueError, match=message):
        task.fit(["good", "bad"], labels, verbose=0)


@pytest.mark.parametrize("label", ["fair", 2, -1, 0.5, float("nan")])
def test_bad_label_in_a_dataset(label):
    task = tiny_classifier()
    task.compile("sgd")
    dataset = tf.data.Dataset.from_tensor_slices((["good"], [label])).batch(1)
    with pytest.raises(tf.errors.InvalidArgumentError, match="among bad, good"):
        task.fit(dataset, verbose=0)


def test_labels_must_be_one_an_example():
    task, score = tiny_classifier(), tiny_classifier(labels=None)
    for broken, labels in ((task, np.eye(2)), (score, np.ones((2, 2)))):
        broken.compile("sgd")
        with pytest.raises(ValueError, match="one label an example"):
            broken.fit(["good", "bad"], labels, verbose=0)
        dataset = tf.data.Dataset.from_tensor_slices((["good", "bad"], labels)).batch(1)
        with pytest.raises((ValueError, tf.errors.InvalidArgumentError)):
            broken.fit(dataset, verbose=0)
        with pytest.raises(ValueError, match="needs labels"):
            broken.fit(["good", "bad"], verbose=0)
    with pytest.raises(ValueError, match="finite numbers. Label 1"):
        score.fit(["good", "bad"], [1.0, np.nan], verbose=0)
    with pytest.raises(ValueError, match="no examples"):
        task.fit([], [], verbose=0)
    with pytest.raises(ValueError, match="Label 0 is: 5"):
        task.fit(task.preprocessor(["good"]), np.array([5]), verbose=0)


def test_no_texts_say_nothing_about_pairs():
    task = tiny_classifier()
    assert task.classify([]) == [] and task.pair is None
    with pytest.raises(ValueError, match="this one has 3 parts"):
        task.predict(("a", "b", "c"))
    assert task.pair is None
    assert len(task.classify([("good", "bad")])) == 1 and task.pair
    assert task.classify([]) == []


def test_bad_set_ups():
    with pytest.raises(ValueError, match="at least two labels"):
        tiny_classifier(labels=["one"])
    for labels in (["a\nb", "c"], ["a\r", "b"]):
        with pytest.raises(ValueError, match="one line"):
            kbz.TextClassifier(tiny_encoder(), labels=labels)
    with pytest.raises(ValueError, match="from_logits=True"):
        tiny_classifier().compile("sgd", loss="sparse_categorical_crossentropy")
    for labels in ([1, 0], "ab", [b"neg", b"pos"], [None, "a"]):
        with pytest.raises(ValueError, match="Labels are names|at least two"):
            kbz.TextClassifier(tiny_encoder(), labels=labels)
    with pytest.raises(ValueError, match=r"Item 1 of `text` holds half a surrogate pair"):
        tiny_classifier().predict(["good", "\ud800"])
    with pytest.raises(ValueError, match="`batch_size` must be at least 1"):
        tiny_classifier().predict(["good"], batch_size=0)
    with pytest.raises(ValueError, match="Twice or more: a"):
        tiny_classifier(labels=["a", "b", "a"])
    with pytest.raises(ValueError, match="no preprocessor"):
        kbz.TextClassifier(tiny_encoder(), labels=["a", "b"]).predict(["text"])
    with pytest.raises(ValueError, match="vocabulary has 27 entries.*20 rows"):
        kbz.TextClassifier(tiny_encoder(vocab_size=20), preprocessor=tiny_preprocessor())
    with pytest.raises(ValueError, match="64 tokens.*32 positions"):
        kbz.TextClassifier(tiny_encoder(), preprocessor=tiny_preprocessor(64))
    with pytest.raises(ValueError, match="exactly 16 tokens.*gives 12"):
        kbz.TextClassifier(tiny_encoder(sequence_length=16), preprocessor=tiny_preprocessor(12))
    with pytest.raises(ValueError, match="Item 1 is 3"):
        tiny_classifier().predict(["good", 3])
    with pytest.raises(ValueError, match="Item 0 is None"):
        tiny_classifier().predict([None])


def test_fixed_length_and_xla():
    keras.utils.set_random_seed(0)
    encoder = tiny_encoder(sequence_length=12)
    task = kbz.TextClassifier(encoder, ["bad", "good"], preprocessor=tiny_preprocessor(12))
    task.compile("sgd", jit_compile=True)
    assert task.jit_compile is True
    plain = kbz.TextClassifier(encoder, ["bad", "good"], preprocessor=task.preprocessor)
    plain.set_weights(task.get_weights())
    plain.compile("sgd")
    assert task.evaluate(TEXTS, NAMES, verbose=0) == pytest.approx(
        plain.evaluate(TEXTS, NAMES, verbose=0), abs=1e-5
    )
    logs = task.fit(TEXTS, NAMES, verbose=0).history
    assert np.isfinite(logs["loss"][0])


RELOAD = """
import json, sys
import keras, numpy as np
import keras_bert_zoo
task = keras.saving.load_model(sys.argv[1])
answers = task.classify(json.loads(sys.argv[2]))
print(json.dumps({"answers": answers, "labels": task.labels, "clip": task.clip_norm,
                  "steps": int(task.optimizer.iterations),
                  "lowercase": task.tokenizer.lowercase,
                  "length": task.preprocessor.sequence_length}))
"""


def test_keras_file_holds_everything(tmp_path, run_python):
    # BC-E05, BC-X06: another process, another hash seed, the vocabulary file gone.
    from tiny import VOCABULARY

    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("\n".join(VOCABULARY) + "\n")
    tokenizer = kbz.WordPieceTokenizer(vocabulary, lowercase=False)
    task = kbz.TextClassifier(
        tiny_encoder(), labels=["c", "a", "b"], preprocessor=kbz.TextPreprocessor(tokenizer, 10)
    )
    task.compile(kbz.adamw(1e-2, 20), clip_norm=1.0)
    texts = ["good tea", "bad film", "Good", "what is the capital of france ?", ""]
    task.fit(texts, ["a", "b", "c", "a", "b"], epochs=2, verbose=0)
    task.save(tmp_path / "task.keras")
    vocabulary.unlink()
    out = run_python(
        RELOAD, tmp_path / "task.keras", json.dumps(texts), env={"PYTHONHASHSEED": "7"}
    )
    loaded = json.loads(out.splitlines()[-1])
    assert loaded["labels"] == ["c", "a", "b"]
    assert (loaded["clip"], loaded["steps"]) == (1.0, 2)
    assert (loaded["lowercase"], loaded["length"]) == (False, 10)
    for mine, other in zip(task.classify(texts), loaded["answers"], strict=True):
        assert mine["label"] == other["label"]
        assert mine["probabilities"] == pytest.approx(other["probabilities"], abs=1e-6)


def test_frozen_layers_stay_frozen(tmp_path):
    keras.utils.set_random_seed(0)
    task = tiny_classifier()
    task.encoder.get_layer("block_0").trainable = False
    task.encoder.get_layer("block_1").attention.trainable = False
    task.compile(kbz.adamw(1e-2, 20))
    task.fit(TEXTS, NAMES, verbose=0)
    task.save(tmp_path / "task.keras")
    again = keras.saving.load_model(tmp_path / "task.keras")
    paths = [[w.path.split("/", 1)[1] for w in t.trainable_weights] for t in (task, again)]
    assert paths[0] == paths[1] and len(paths[0]) < len(task.weights)
    assert int(again.optimizer.iterations) == 1
    for one, other in zip(task.optimizer.variables, again.optimizer.variables, strict=True):
        np.testing.assert_array_equal(one, other)


RESUME = """
import json, sys
import keras, numpy as np
import keras_bert_zoo
task = keras.saving.load_model(sys.argv[1])
texts, names = json.loads(sys.argv[2])
task.fit(texts, names, batch_size=2, shuffle=False, initial_epoch=2, epochs=4, verbose=0)
np.savez(sys.argv[3], *[keras.ops.convert_to_numpy(w) for w in task.weights])
print(int(task.optimizer.iterations))
"""


def test_training_that_goes_on_is_training_that_went_on(tmp_path, run_python):
    # BC-X07, with dropout: its seeds are saved too.
    keras.utils.set_random_seed(0)
    task = tiny_classifier()
    task.compile(kbz.adamw(1e-2, 12, 3), clip_norm=1.0)
    data = TEXTS, NAMES
    task.fit(*data, batch_size=2, shuffle=False, epochs=2, verbose=0)
    task.save(tmp_path / "half.keras")
    task.fit(*data, batch_size=2, shuffle=False, initial_epoch=2, epochs=4, verbose=0)
    out = run_python(RESUME, tmp_path / "half.keras", json.dumps(data), tmp_path / "all.npz")
    assert out.splitlines()[-1] == "12"
    with np.load(tmp_path / "all.npz") as resumed:
        for name, weight in zip(resumed.files, task.weights, strict=True):
            np.testing.assert_array_equal(resumed[name], keras.ops.convert_to_numpy(weight))


def test_loss_scaling_survives_the_file(tmp_path):
    encoder = kbz.BertEncoder(tiny_encoder().config, dtype="mixed_float16")
    task = kbz.TextClassifier(encoder, ["bad", "good"], preprocessor=tiny_preprocessor())
    task.compile(kbz.adamw(1e-3, 10), clip_norm=1.0)
    task.fit(TEXTS, NAMES, verbose=0)
    assert isinstance(task.optimizer, keras.optimizers.LossScaleOptimizer)
    task.save(tmp_path / "task.keras")
    again = keras.saving.load_model(tmp_path / "task.keras")
    assert isinstance(again.optimizer, keras.optimizers.LossScaleOptimizer)
    assert int(again.optimizer.inner_optimizer.iterations) == 1


def test_a_save_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    task = tiny_classifier()
    path = tmp_path / "task.keras"
    task.save(path)
    before = path.read_bytes()
    monkeypatch.setattr(task.tokenizer, "save_assets", lambda folder: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        task.save(path)
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]
    with pytest.raises(ValueError, match="overwrite"):
        task.save(path, overwrite=False)
    with pytest.raises(ValueError, match="must end|saved to a .keras file"):
        task.save(tmp_path / "task.h5")


def test_rows_of_two_are_no_pairs():
    rows = tf.data.Dataset.from_tensor_slices(([["good", "tea"], ["bad", "cup"]], ["good", "bad"]))
    task = tiny_classifier()
    task.compile("sgd")
    with pytest.raises(ValueError, match="Pairs are tuples"):
        task.fit(rows, verbose=0)


def test_texts_are_not_traced_again_for_each_call():
    # BC-U01
    task = tiny_classifier()
    traces = []
    read = task.preprocessor.call

    def counted(texts):
        traces.append(1)
        return read(texts)

    task.preprocessor.call = counted
    for count in range(1, 6):
        task.predict(["good tea"] * count, verbose=0)
    assert len(traces) == 1


def test_training_goes_on_after_reload(tmp_path, task):
    task.save(tmp_path / "task.keras")
    again = keras.saving.load_model(tmp_path / "task.keras")
    assert again.evaluate(TEXTS, NAMES, verbose=0) == pytest.approx(
        task.evaluate(TEXTS, NAMES, verbose=0), abs=1e-6
    )
    before = int(again.optimizer.iterations)
    again.fit(TEXTS, NAMES, batch_size=3, verbose=0)
    assert int(again.optimizer.iterations) == before + 2


def test_ids_with_labels_in_a_list_and_no_ids_at_all():
    task = tiny_classifier()
    task.compile("sgd")
    ids = {name: part.numpy() for name, part in task.preprocessor(["tea", "film"]).items()}
    assert task.fit(ids, [0, 1], verbose=0).history["loss"]
    assert task.fit(ids, ["bad", "good"], validation_data=(ids, [1, 1]), verbose=0).history
    assert task.predict({name: part[:0] for name, part in ids.items()}).shape == (0, 2)
