"""XLA for the passes through the model: the same training, and nothing of text in its step."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf
import trained
from conftest import ROOT
from graph_nodes import functions_of
from tensorflow.python.framework import op_def_registry
from tiny import tiny_preprocessor
from trainings import (
    LENGTH,
    assert_same,
    batches_of,
    classified_rows,
    classifier,
    finish,
    pretraining,
    pretraining_rows,
    start,
    train,
    weights_of,
)

import keras_bert_zoo as kbz
from keras_bert_zoo.training.trainer import Trainer


def compiled_functions(trainer, rows):
    """The functions of the step that XLA has to compile."""
    iterator = trainer.stepper.distribute(batches_of(rows, 4)(0))
    graph = trainer.stepper._run.get_concrete_function(iterator, tf.constant([True])).graph
    functions = functions_of(graph.as_graph_def())
    return [f for f in functions if "_XlaMustCompile" in f.attr and f.attr["_XlaMustCompile"].b]


@pytest.mark.parametrize("parts", [1, 2])
def test_it_trains_as_without(parts):
    rows = pretraining_rows(9)  # Batches of 5 and 4.
    settings = {"clip_norm": 1.0, "accumulation_steps": parts}
    trainers = [
        train(
            pretraining(sequence_length=LENGTH), rows, 5, 20, keras.optimizers.SGD(0.1),
            jit_compile=jit, **settings,
        )[0]
        for jit in (False, True)
    ]  # fmt: skip
    plain, compiled = trainers
    np.testing.assert_allclose(compiled.step_losses, plain.step_losses, rtol=0, atol=1e-5)
    assert_same(weights_of(compiled.task), weights_of(plain.task), 1e-5)
    assert [len(compiled_functions(each, rows)) for each in trainers] == [0, 1]


@pytest.mark.slow
def test_two_replicas_train_as_one_without(tmp_path):
    flags = ["--task=classifier", "--dropout=0", "--optimizer=sgd", "--rate=0.1", "--steps=20"]
    flags += ["--batch_size=32"]
    folders = [tmp_path / "one", tmp_path / "two"]
    folders[0].mkdir()
    trained.run(trained.parse([str(folders[0]), *flags]))
    finish(start(folders[1], *flags, "--replicas=2", "--jit_compile"))
    with np.load(folders[0] / "weights.npz") as one, np.load(folders[1] / "weights.npz") as two:
        for name in one.files:
            np.testing.assert_allclose(two[name], one[name], rtol=0, atol=1e-5)


def test_bfloat16():
    rows = classified_rows(4)
    tasks = [classifier(sequence_length=LENGTH, dtype="mixed_bfloat16") for _ in range(2)]
    losses = [
        train(task, rows, 4, 20, keras.optimizers.SGD(0.5), jit_compile=jit)[0].step_losses
        for task, jit in zip(tasks, (False, True), strict=True)
    ]
    np.testing.assert_allclose(*losses, rtol=0, atol=5e-2)
    assert losses[1][-1] < losses[1][0] - 0.05


class Interrupt(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == 3:
            raise KeyboardInterrupt


@pytest.mark.slow
def test_dropout_draws_anew_and_goes_on_after_an_interruption(tmp_path):
    def begin(folder, callbacks):
        task = pretraining(sequence_length=LENGTH, hidden_dropout_prob=0.3)
        settings = {"jit_compile": True, "save_steps": 2, "checkpoint_dir": tmp_path / folder}
        still = keras.optimizers.SGD(0.0)
        return train(task, pretraining_rows(4), 4, 6, still, callbacks=callbacks, **settings)[0]

    whole = begin("whole", []).step_losses
    assert len(set(whole)) == 6
    with pytest.raises(KeyboardInterrupt):
        begin("cut", [Interrupt()])
    assert begin("cut", []).step_losses.tolist() == whole.tolist()


REPLICAS = """
import sys
import keras
import numpy as np
import tensorflow as tf
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])

import trainings

x, y, weights = tf.nest.map_structure(tf.constant, trainings.classified_rows(1))
with strategy.scope():
    task = trainings.classifier(
        sequence_length=trainings.LENGTH, hidden_dropout_prob=float(sys.argv[1])
    )
    task.compile(keras.optimizers.SGD(0.1))
    task.optimizer.build(task.trainable_variables)

@tf.function(autograph=False)
def losses():
    def replica():
        _, _, terms, _ = task.compute_gradients(x, y, weights, jit_compile=True)
        return terms["loss"][0]
    return strategy.run(replica)

print([[float(value) for value in strategy.experimental_local_results(losses())] for _ in "12"])
"""


@pytest.mark.slow
def test_each_replica_drops_its_own(run_python):
    for rate, different in ((0.0, 1), (0.4, 4)):
        said = run_python(REPLICAS, rate, env={"PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"})
        values = json.loads(said.splitlines()[-1])
        assert len({round(value, 5) for pair in values for value in pair}) == different


def test_an_encoder_of_dynamic_length_is_refused():
    with pytest.raises(ValueError) as of_compile:
        pretraining().compile("sgd", jit_compile=True)
    with pytest.raises(ValueError, match="fixed length.*`sequence_length=...`") as of_trainer:
        Trainer(pretraining(), "sgd", jit_compile=True)
    assert str(of_trainer.value) == str(of_compile.value)


def text_nodes(graph):
    """Names of a `GraphDef`'s nodes that take or give strings or call Python.

    The message of an assertion, which XLA leaves out, is not counted.
    """
    found = []
    for node in [*graph.node, *(n for f in functions_of(graph) for n in f.node_def)]:
        definition = op_def_registry.get(node.op)
        arguments = [*definition.input_arg, *definition.output_arg] if definition else []
        types = {argument.type for argument in arguments}
        for attribute in node.attr.values():
            types |= {attribute.type, *attribute.list.type}
        of_text = tf.string.as_datatype_enum in types and node.op not in ("Const", "Assert")
        if of_text or "PyFunc" in node.op:
            found.append(f"{node.op} {node.name}")
    return found


def test_strings_stay_on_the_host(monkeypatch):
    """BC-G04: texts become ids of a fixed length in `tf.data`, and the step has no part in it."""
    texts, labels = ["good tea", "a bad film", "fine", "bad bad cup"], [*["good", "bad"] * 2]
    task = classifier(sequence_length=LENGTH)
    batches = tf.data.Dataset.from_tensor_slices((texts, labels)).batch(2).repeat()
    prepared = task.prepare(batches, training=True)
    for tensor in prepared.element_spec[0].values():
        assert tensor.dtype == tf.int32 and tensor.shape.as_list() == [None, LENGTH]
    trainer = Trainer(task, "sgd", jit_compile=True)
    trainer.fit(lambda step: prepared.skip(step), 3, verbose=0)
    assert np.isfinite(trainer.step_losses).all()
    iterator, allowed = trainer.stepper.distribute(prepared), tf.constant([True])
    step = trainer.stepper._run.get_concrete_function(iterator, allowed)
    assert text_nodes(step.graph.as_graph_def()) == []

    # What `fit` runs on texts.
    task.compile("sgd", jit_compile=True)
    seen = []
    monkeypatch.setattr(
        task, "train_step", lambda data, step=task.train_step: (seen.append(data), step(data))[1]
    )
    task.fit(texts, labels, batch_size=2, verbose=0)
    ids = seen[0][0]
    assert {tensor.dtype for tensor in ids.values()} == {tf.int32}
    assert {tensor.shape[-1] for tensor in ids.values()} == {LENGTH}
    assert text_nodes(tf.function(task.train_step).get_concrete_function(
        tf.nest.map_structure(lambda t: tf.TensorSpec(t.shape, t.dtype), seen[0])
    ).graph.as_graph_def()) == []  # fmt: skip


def test_the_search_for_strings_finds_them():
    @tf.function
    def tokenized(text):
        numbers = tf.numpy_function(lambda t: np.int64(len(t)), [text], tf.int64)
        ids = kbz.TextPreprocessor(tiny_preprocessor().tokenizer, LENGTH)(text)
        return ids, numbers

    found = text_nodes(
        tokenized.get_concrete_function(tf.TensorSpec([None], tf.string)).graph.as_graph_def()
    )
    names = {entry.split()[0] for entry in found}
    assert {"PyFunc", "RegexReplaceV2", "StaticRegexReplace"} & names and "PyFunc" in names
    assert len(names) > 2
