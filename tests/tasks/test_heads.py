"""What all heads share: dtypes, replicas, configs, files, exports, and the examples they show."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from tiny import tiny_encoder, tiny_preprocessor
from tiny_heads import HEADS, TRAINED, batch_for, texts_for, tiny_head

import keras_bert_zoo as kbz

LAYERS = {
    "next_sentence": ("next_sentence_logits", 2),
    "multi_label": ("logits", 3),
    "token": ("logits", 3),
    "question": ("span_logits", 2),
    "choice": ("logits", 1),
}
ARCHITECTURES = {
    "next_sentence": "BertForNextSentencePrediction",
    "multi_label": "BertForSequenceClassification",
    "token": "BertForTokenClassification",
    "question": "BertForQuestionAnswering",
    "choice": "BertForMultipleChoice",
    "embedder": "BertModel",
}


def flat(outputs):
    return [keras.ops.convert_to_numpy(part) for part in keras.tree.flatten(outputs)]


@pytest.mark.parametrize("name", TRAINED)
def test_the_head_is_one_dense_layer_of_that_name(name):
    keras.utils.set_random_seed(0)
    encoder = tiny_encoder(hidden_size=128, initializer_range=0.25)
    task = tiny_head(name, encoder)
    layer, units = LAYERS[name]
    inner = {w.path for w in encoder.weights}
    head = {w.path: w for w in task.weights if w.path not in inner}
    assert set(head) == {f"{layer}/kernel", f"{layer}/bias"}
    kernel = head[f"{layer}/kernel"].numpy()
    assert kernel.shape == (128, units)
    # A normal cut off at two deviations, so that the spread left is 0.88 of the deviation.
    assert kernel.std() == pytest.approx(0.88 * 0.25, rel=0.15) and np.abs(kernel).max() <= 0.5
    assert not head[f"{layer}/bias"].numpy().any()


@pytest.mark.parametrize("name", HEADS)
def test_the_architecture_has_a_name(name):
    assert tiny_head(name).architecture == ARCHITECTURES[name]
    assert kbz.TextClassifier.architecture == "BertForSequenceClassification"


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16", "float64"])
@pytest.mark.parametrize("name", HEADS)
def test_outputs_are_float32_under_any_policy(name, policy):
    task = tiny_head(name, kbz.BertEncoder(tiny_encoder().config, dtype=policy))
    x, y = batch_for(name)
    for output in flat(task(x)):
        assert output.dtype == np.float32 and np.isfinite(output).all()
    if name in TRAINED:
        task.compile(kbz.adamw(1e-3, 10), clip_norm=1.0)
        logs = task.fit(x, y, batch_size=4, verbose=0).history
        assert np.isfinite(logs["loss"][0])


@pytest.mark.parametrize("name", TRAINED)
def test_training_lowers_the_loss(name):
    keras.utils.set_random_seed(0)
    task = tiny_head(name, tiny_encoder(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0))
    task.compile(kbz.adamw(1e-2, 60), clip_norm=1.0)
    x, y = batch_for(name)
    before = task.evaluate(x, y, verbose=0, return_dict=True)
    task.fit(x, y, batch_size=4, epochs=30, validation_data=(x, y), verbose=0)
    after = task.evaluate(x, y, verbose=0, return_dict=True)
    assert after["loss"] < 0.6 * before["loss"]
    (score,) = task.score_names
    assert after[score] > before[score] and after[score] > 0.7


@pytest.mark.parametrize("name", TRAINED)
def test_figures_do_not_depend_on_how_rows_are_batched(name):
    task = tiny_head(name)
    task.compile("sgd")
    x, y = batch_for(name)
    whole = task.evaluate(x, y, batch_size=8, verbose=0, return_dict=True)
    assert task.evaluate(x, y, batch_size=3, verbose=0, return_dict=True) == pytest.approx(
        whole, abs=1e-5
    )
    rows = tf.data.Dataset.from_tensor_slices((x, y)).batch(5)
    assert task.evaluate(rows, verbose=0, return_dict=True) == pytest.approx(whole, abs=1e-5)


@pytest.mark.parametrize("name", TRAINED)
def test_weights_of_examples_weigh_the_mean(name):
    task = tiny_head(name)
    task.compile("sgd")
    x, y = batch_for(name)
    weights = np.array([0, 1, 0, 3, 0, 0, 2, 0.0])
    value = task.evaluate(x, y, sample_weight=weights, verbose=0)[0]
    terms = []
    for row, weight in enumerate(weights):
        one = [tf.nest.map_structure(lambda t, r=row: tf.constant(t[r : r + 1]), p) for p in (x, y)]
        total, count = task.loss_terms(*one, task(one[0]), None)["loss"]
        terms.append((float(total) * weight, float(count) * weight))
    expected, count = np.sum(terms, axis=0)
    assert value == pytest.approx(expected / count, rel=1e-5)


@pytest.mark.parametrize("name", HEADS)
def test_a_config_says_everything(name):
    settings = {
        "multi_label": {"labels": ["b", "a"], "dropout": 0.3},
        "token": {"labels": ["b", "a"], "dropout": 0.3},
        "question": {"max_answer_tokens": 3},
        "choice": {"dropout": 0.3},
        "embedder": {"pooling": "max", "normalize": False, "layers": [-2, 0], "pair": True},
    }.get(name, {})
    encoder = kbz.BertEncoder(tiny_encoder().config, output_hidden_states=True)
    task = tiny_head(name, encoder, name="mine", **settings)
    config = task.get_config()
    assert config["name"] == "mine"
    assert {key: config[key] for key in settings} == settings
    assert config["pair"] == (True if name not in ("multi_label", "token") else None)
    again = type(task).from_config(json.loads(json.dumps(config)))
    assert again.get_config() == config
    paths = [[w.path for w in t.weights] for t in (task, again)]
    assert paths[0] == paths[1]


LOAD = """
import json, sys
sys.path.insert(0, sys.argv[2])
import keras, numpy as np
import keras_bert_zoo
from tiny_heads import HEADS, batch_for, texts_for
for name in HEADS:
    task = keras.saving.load_model(f"{sys.argv[1]}/{name}.keras")
    outputs = [task.predict(texts_for(name), verbose=0), task(batch_for(name)[0])]
    outputs = keras.tree.flatten(outputs)
    np.savez(f"{sys.argv[1]}/{name}.npz", *[np.asarray(part) for part in outputs])
    if name != "embedder":
        task.fit(*batch_for(name), batch_size=8, verbose=0)
        assert int(task.optimizer.iterations) == 2
print("loaded")
"""


def test_keras_files_hold_everything(tmp_path, run_python, request):
    tasks = {}
    for name in HEADS:
        task = tasks[name] = tiny_head(name)
        if name != "embedder":
            task.compile(kbz.adamw(1e-2, 20), clip_norm=1.0)
            task.fit(*batch_for(name), batch_size=8, verbose=0)
        task.save(tmp_path / f"{name}.keras")
    assert "loaded" in run_python(LOAD, tmp_path, request.path.parent.parent)
    for name, task in tasks.items():
        expected = flat([task.predict(texts_for(name), verbose=0), task(batch_for(name)[0])])
        with np.load(tmp_path / f"{name}.npz") as found:
            assert len(found.files) == len(expected)
            for key, value in zip(found.files, expected, strict=True):
                np.testing.assert_allclose(found[key], value, atol=1e-6)


SERVE = """
import json, sys
import numpy as np, tensorflow as tf, tensorflow_text
assert not [name for name in sys.modules if name.startswith("keras_bert_zoo")]
folder, inputs = sys.argv[1], json.loads(sys.argv[2])
for name, texts in inputs.items():
    loaded = tf.saved_model.load(f"{folder}/{name}").signatures
    answers = loaded["serving_default"](**{k: tf.constant(v) for k, v in texts.items()})
    np.savez(f"{folder}/{name}.npz", **{
        k: v.numpy().astype(str) if v.dtype == tf.string else v.numpy() for k, v in answers.items()
    })
    # Also of another number of rows and tokens than the model was traced with.
    with np.load(f"{folder}/{name}.ids.npz") as ids:
        answers = loaded["token_ids"](**{k: tf.constant(ids[k]) for k in ids.files})
    assert len(next(iter(answers.values()))) == 8
print("served")
"""


def test_exports_answer_strings_without_our_package(tmp_path, run_python):
    tasks, inputs = {}, {}
    for name in HEADS:
        task, texts = tiny_head(name), texts_for(name)
        task.predict(texts, verbose=0)
        task.export(tmp_path / name)
        np.savez(tmp_path / f"{name}.ids.npz", **batch_for(name)[0])
        tasks[name] = task
        names = ("text_a", "text_b")
        if isinstance(texts, list):
            inputs[name] = {"text": texts}
        elif isinstance(texts, tuple):
            inputs[name] = dict(zip(names, texts, strict=True))
        else:
            rows = [[*row, "", ""][:3] for row in texts["text_b"]]
            inputs[name] = {"text_a": texts["text_a"], "text_b": rows}
    assert "served" in run_python(SERVE, tmp_path, json.dumps(inputs))
    for name, task in tasks.items():
        predicted = task.predict(texts_for(name), verbose=0)
        predicted = predicted if isinstance(predicted, dict) else {"": predicted}
        key = "embedding" if name == "embedder" else "logits"
        with np.load(tmp_path / f"{name}.npz") as answers:
            for output, value in predicted.items():
                np.testing.assert_allclose(answers[output or key], value, atol=1e-5)
        labels = tmp_path / name / "assets" / "labels.txt"
        assert labels.exists() == (name in ("next_sentence", "multi_label", "token"))


MIRRORED = """
import sys
sys.path[:0] = [sys.argv[1]]
import keras, numpy as np, tensorflow as tf
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
from tiny import tiny_encoder
from tiny_heads import TRAINED, batch_for, tiny_head

def made(name):
    keras.utils.set_random_seed(1)
    encoder = tiny_encoder(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    dropout = {"dropout": 0.0} if name in ("multi_label", "token", "choice") else {}
    task = tiny_head(name, encoder, **dropout)
    task.compile(keras.optimizers.SGD(1.0), clip_norm=0.5)
    return task

strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
for name in TRAINED:
    x, y = batch_for(name)
    one = made(name)
    with strategy.scope():
        two = made(name)
    # A batch of 8 and one of 1, of which a replica has no row.
    rows = tf.data.Dataset.from_tensor_slices((x, y))
    rows = rows.concatenate(rows.take(1)).batch(8)
    for _ in range(2):
        alone = one.fit(rows, verbose=0).history
        shared = two.fit(rows, verbose=0).history
        for key, value in alone.items():
            np.testing.assert_allclose(value, shared[key], atol=5e-6, err_msg=f"{name} {key}")
    for left, right in zip(one.trainable_weights, two.trainable_weights):
        np.testing.assert_allclose(left.numpy(), right.numpy(), atol=2e-6, err_msg=left.path)
    left, right = (t.evaluate(rows, verbose=0, return_dict=True) for t in (one, two))
    for key in left:
        np.testing.assert_allclose(left[key], right[key], atol=5e-6, err_msg=f"{name} {key}")
print("agreed")
"""


def test_two_replicas_train_as_one(run_python, request):
    assert "agreed" in run_python(MIRRORED, request.path.parent.parent)


@pytest.mark.parametrize("name", [*HEADS, "classifier"])
def test_the_example_of_the_docstring_runs(name):
    task_class = kbz.TextClassifier if name == "classifier" else type(tiny_head(name))
    _, _, example = task_class.__doc__.partition("```python\n")
    lines = [line.removeprefix("    ") for line in example.split("```")[0].splitlines()]
    names = {"kbz": kbz, "np": np, "encoder": tiny_encoder(), "preprocessor": tiny_preprocessor()}
    exec("\n".join(lines), names)
    assert type(names["task"]) is task_class
