"""Exports: what they take and give, where they load, what they leave behind."""

import json
import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf
from graph_nodes import operations_in_functions
from tiny import VOCABULARY, tiny_classifier, tiny_encoder, tiny_preprocessor

import keras_bert_zoo as kbz
from keras_bert_zoo.serving.export import export_saved_model

TEXTS = ["good tea", "what a bad film !", "", "Paris \u00e9t\u00e9 \u5317"]

SERVE = """
import json, sys
import tensorflow as tf
if sys.argv[3] == "text":
    import tensorflow_text
assert not [name for name in sys.modules if name.startswith("keras_bert_zoo")]
loaded = tf.saved_model.load(sys.argv[1])
inputs = json.loads(sys.argv[2])
answer = loaded.signatures["serving_default"](**{k: tf.constant(v) for k, v in inputs.items()})
print(json.dumps({k: (v.numpy().astype(str) if v.dtype == tf.string else v.numpy()).tolist()
                  for k, v in answer.items()}))
"""


def serve(run_python, path, inputs, kind="text"):
    return json.loads(run_python(SERVE, path, json.dumps(inputs), kind).splitlines()[-1])


@pytest.fixture(scope="module")
def task():
    keras.utils.set_random_seed(3)
    return tiny_classifier()


def test_strings_in_labels_out_without_our_package(task, tmp_path, run_python):
    # BC-E01, BC-E03: tensorflow and tensorflow_text alone, outputs as `predict` gives them.
    task.predict(TEXTS, verbose=0)
    task.export(tmp_path / "1")
    answer = serve(run_python, tmp_path / "1", {"text": TEXTS})
    np.testing.assert_allclose(answer["logits"], task.predict(TEXTS, verbose=0), atol=1e-5)
    expected = task.classify(TEXTS)
    assert answer["label"] == [row["label"] for row in expected]
    assert answer["label_names"] == [["bad", "good"]] * 4
    np.testing.assert_allclose(
        answer["probabilities"],
        [list(row["probabilities"].values()) for row in expected],
        atol=1e-6,
    )
    assets = tmp_path / "1" / "assets"
    assert (assets / "vocab.txt").read_text().splitlines() == VOCABULARY
    assert (assets / "labels.txt").read_text().splitlines() == ["bad", "good"]


def test_any_batch_also_none(task, tmp_path):
    task.export(tmp_path / "1")
    serving = kbz.load_saved_model(tmp_path / "1").signatures["serving_default"]
    for count in (0, 1, 5):
        assert serving(text=tf.constant(["tea"] * count, tf.string))["label"].shape == (count,)


def test_pairs_have_an_input_a_text(tmp_path):
    keras.utils.set_random_seed(4)
    task = tiny_classifier()
    pairs = (TEXTS, TEXTS[::-1])
    expected = task.predict(pairs, verbose=0)
    task.export(tmp_path / "1")
    serving = kbz.load_saved_model(tmp_path / "1").signatures["serving_default"]
    answer = serving(text_a=tf.constant(pairs[0]), text_b=tf.constant(pairs[1]))
    np.testing.assert_allclose(answer["logits"], expected, atol=1e-5)


def test_regression_gives_a_score(tmp_path):
    task = tiny_classifier(labels=None)
    task.export(tmp_path / "1")
    answer = kbz.load_saved_model(tmp_path / "1").signatures["serving_default"](
        text=tf.constant(TEXTS)
    )
    np.testing.assert_allclose(answer["score"], task.predict(TEXTS, verbose=0)[:, 0], atol=1e-5)
    assert not (tmp_path / "1" / "assets" / "labels.txt").exists()


def test_ids_signature(task, tmp_path):
    task.export(tmp_path / "1")
    ids = task.preprocessor(TEXTS)
    answer = kbz.load_saved_model(tmp_path / "1").signatures["token_ids"](**ids)
    np.testing.assert_allclose(answer["logits"], task.predict(TEXTS, verbose=0), atol=1e-5)


def test_export_of_ids_alone_needs_only_tensorflow(task, tmp_path, run_python):
    task.export(tmp_path / "1", with_text=False)
    ids = {name: value.numpy().tolist() for name, value in task.preprocessor(TEXTS).items()}
    answer = serve(run_python, tmp_path / "1", ids, kind="ids")
    np.testing.assert_allclose(answer["logits"], task.predict(TEXTS, verbose=0), atol=1e-5)


def test_without_a_preprocessor():
    task = kbz.TextClassifier(tiny_encoder(), labels=["a", "b"])
    with pytest.raises(ValueError, match="with_text=False"):
        task.export("never_written")
    assert not pathlib.Path("never_written").exists()


def test_a_masked_language_model_fills_in(tmp_path):
    keras.utils.set_random_seed(5)
    task = kbz.Pretraining(tiny_encoder(), preprocessor=tiny_preprocessor())
    texts = ["the [MASK] of france", "no gap", "[MASK] tea [MASK]"]
    task.export(tmp_path / "1")
    serving = kbz.load_saved_model(tmp_path / "1").signatures
    answer = serving["serving_default"](text=tf.constant(texts))
    assert answer["tokens"].shape == (3, 2, 5)
    filled = task.fill([texts[0], texts[2]])
    for row, gap, candidates in ((0, 0, filled[0][0]), (2, 1, filled[1][1])):
        tokens = [token.decode() for token in answer["tokens"][row, gap].numpy()]
        assert tokens == [candidate["token"] for candidate in candidates]
        np.testing.assert_allclose(
            answer["probabilities"][row, gap], [c["probability"] for c in candidates], atol=1e-6
        )
    assert set(answer["tokens"][1].numpy().ravel()) == {b""}
    assert not answer["probabilities"][1].numpy().any()
    ids = task.read_texts(texts)
    by_ids = serving["token_ids"](**ids)
    np.testing.assert_array_equal(by_ids["tokens"], answer["tokens"])


def test_bfloat16_exports(tmp_path):
    encoder = kbz.BertEncoder(tiny_encoder().config, dtype="mixed_bfloat16")
    task = kbz.TextClassifier(encoder, ["a", "b"], preprocessor=tiny_preprocessor())
    task.export(tmp_path / "1")
    answer = kbz.load_saved_model(tmp_path / "1").signatures["serving_default"](
        text=tf.constant(TEXTS)
    )
    assert answer["logits"].dtype == tf.float32
    np.testing.assert_allclose(answer["logits"], task.predict(TEXTS, verbose=0), atol=1e-2)


def test_replaces_a_saved_model_but_nothing_else(task, tmp_path):
    target = tmp_path / "export" / "1"
    task.export(target)
    task.export(target)
    assert sorted(path.name for path in target.parent.iterdir()) == ["1"]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("precious")
    with pytest.raises(ValueError, match=r"no part of a SavedModel \(thesis.txt\)"):
        task.export(tmp_path / "mine")
    (target / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"notes.txt"):
        task.export(target)
    with pytest.raises(ValueError, match="local folder"):
        task.export("gs://bucket/model")
    with pytest.raises(ValueError, match="is a file"):
        task.export(tmp_path / "mine" / "thesis.txt")
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "precious"


def test_a_failure_leaves_what_was_there(task, tmp_path):
    target = tmp_path / "1"
    task.export(target)

    def broken(text):
        raise ValueError("no answer")

    specs = [tf.TensorSpec((None,), tf.string, "text")]
    with pytest.raises(ValueError, match="no answer"):
        export_saved_model(task, target, {"serving_default": (broken, specs)})
    assert [path.name for path in tmp_path.iterdir()] == ["1"]
    kbz.load_saved_model(target)


def test_a_rename_that_fails_brings_the_old_one_back(task, tmp_path, monkeypatch):
    target = tmp_path / "1"
    task.export(target)
    rename = pathlib.Path.rename

    def failing(self, to):
        if self.name.endswith(".partial"):
            raise OSError("disk trouble")
        return rename(self, to)

    monkeypatch.setattr(pathlib.Path, "rename", failing)
    with pytest.raises(OSError, match="disk trouble"):
        task.export(target)
    assert [path.name for path in tmp_path.iterdir()] == ["1"]
    kbz.load_saved_model(target)


def test_an_export_that_was_killed_is_mended(task, tmp_path):
    target = tmp_path / "1"
    task.export(target)
    target.rename(tmp_path / ".1.previous")  # As a kill between the two renames leaves it.
    specs = [tf.TensorSpec((None,), tf.string, "text")]
    with pytest.raises(ZeroDivisionError):
        export_saved_model(task, target, {"serving_default": (lambda text: 1 / 0, specs)})
    assert [path.name for path in tmp_path.iterdir()] == ["1"]
    kbz.load_saved_model(target)


def test_a_link_is_followed(task, tmp_path):
    task.export(tmp_path / "1")
    (tmp_path / "current").symlink_to(tmp_path / "1")
    task.export(tmp_path / "current")
    assert (tmp_path / "current").is_symlink()
    kbz.load_saved_model(tmp_path / "1")


def test_operations_of_an_export(task, tmp_path):
    """Servers carry old builds of tensorflow_text: its ops in a graph are one, and known."""
    task.export(tmp_path / "1")
    proto = tf.io.gfile.GFile(str(tmp_path / "1" / "saved_model.pb"), "rb").read()
    from tensorflow.core.protobuf import saved_model_pb2

    graph = saved_model_pb2.SavedModel.FromString(proto).meta_graphs[0].graph_def
    ops = operations_in_functions(graph)
    known = set(tf.raw_ops.__dict__)
    foreign = {op for op in ops if op not in known and not op.startswith("_")}
    assert foreign == {"FastWordpieceTokenizeWithOffsets"}
    assert "PyFunc" not in ops and "EagerPyFunc" not in ops
