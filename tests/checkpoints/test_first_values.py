"""Variables start from the values they are given, and those that are given none from their own."""

import json
import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf
from checkpoint_files import Golden, write_config, write_hugging_face

import keras_bert_zoo as kbz
from keras_bert_zoo.checkpoints.first_values import first_values
from keras_bert_zoo.presets import PRESETS


def dense(name="dense"):
    layer = keras.layers.Dense(3, kernel_initializer="truncated_normal", name=name)
    layer.build((None, 200))
    return layer


def test_given_values_and_random_ones():
    keras.utils.set_random_seed(1)
    expected = [np.array(dense().kernel) for _ in range(2)]
    keras.utils.set_random_seed(1)
    values = np.arange(600, dtype="float32").reshape(200, 3)
    with first_values() as set_first:
        layers = [dense(), dense()]
        set_first(layers[0].kernel, lambda: values)
        set_first(layers[1].bias, lambda: tf.ones(3))
    assert np.array_equal(layers[0].kernel, values)
    assert np.array_equal(layers[0].bias, np.zeros(3))
    assert np.array_equal(layers[1].kernel, expected[1])  # As if nothing had been done.
    assert np.array_equal(layers[1].bias, np.ones(3))
    assert layers[0](np.ones((1, 200))).shape == (1, 3)


@pytest.mark.parametrize("dtype", ["bfloat16", "mixed_bfloat16", "float64"])
def test_policies(tmp_path, dtype):
    golden = Golden()
    folder = write_hugging_face(tmp_path / "model", golden)
    encoder = kbz.BertEncoder.from_preset(folder, dtype=dtype)
    stored = "float32" if dtype == "mixed_bfloat16" else dtype
    assert {weight.dtype for weight in encoder.trainable_weights} == {stored}
    table = golden.weights["bert.embeddings.word_embeddings.weight"]
    assert np.array_equal(encoder.token_embedding.embeddings, tf.cast(table, stored))
    kernel = golden.weights["bert.pooler.dense.weight"].T
    assert np.array_equal(encoder.get_layer("pooler").dense.kernel, tf.cast(kernel, stored))


@pytest.mark.parametrize("error", [ValueError, MemoryError, KeyboardInterrupt])
def test_a_failure_comes_through_and_leaves_keras_as_it_was(error):
    def fail():
        raise error("in the middle")

    with pytest.raises(error, match="in the middle"), first_values() as set_first:
        first, second = dense("first"), dense("second")
        set_first(first.kernel, fail)
        set_first(second.kernel, lambda: pytest.fail("read after a failure"))
    # A functional model is traced in such a scope, at whose end Keras makes what is not made yet.
    inputs = keras.Input((4,))
    model = keras.Model(inputs, keras.layers.Dense(2)(inputs))
    assert model(np.ones((1, 4))).shape == (1, 2)


def test_a_file_that_changes_while_it_is_read(tmp_path, monkeypatch):
    """It is found out after some variables were made: no model comes of it."""
    folder = write_hugging_face(tmp_path / "model", Golden())
    source = "keras_bert_zoo.checkpoints.source"
    monkeypatch.setattr(f"{source}._WINDOW", 1)
    states = iter(range(100))
    monkeypatch.setattr(f"{source}._state", lambda path: min(next(states), 9) // 9)
    with pytest.raises(ValueError, match="was written to while it was read"):
        kbz.BertEncoder.from_preset(folder)
    monkeypatch.undo()
    kbz.BertEncoder.from_preset(folder)


def test_an_error_of_the_constructor(tmp_path):
    folder = write_hugging_face(tmp_path / "model", Golden())
    with pytest.raises(ValueError, match="`sequence_length` must lie between"):
        kbz.BertEncoder.from_preset(folder, sequence_length=10**6)


def test_within_a_scope_without_values(tmp_path):
    folder = write_hugging_face(tmp_path / "model", Golden())
    with keras.StatelessScope(), pytest.raises(ValueError, match="build the model before"):
        kbz.BertEncoder.from_preset(folder)


def test_two_replicas(tmp_path, run_python):
    """Every replica has the values, and a part that is not there the same random ones."""
    golden = Golden()
    weights = {name: value for name, value in golden.weights.items() if "pooler" not in name}
    folder = write_hugging_face(tmp_path / "model", golden, weights)
    out = run_python(
        """
import sys, warnings, numpy as np, tensorflow as tf
cpus = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpus[0], [tf.config.LogicalDeviceConfiguration()] * 2)
import keras_bert_zoo as kbz
warnings.simplefilter("ignore")
single = kbz.BertEncoder.from_preset(sys.argv[1])
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    encoder = kbz.BertEncoder.from_preset(sys.argv[1])
for ours, theirs in zip(encoder.trainable_weights, single.trainable_weights, strict=True):
    values = [np.array(value) for value in strategy.experimental_local_results(ours.value)]
    assert len(values) == 2 and np.array_equal(*values), ours.path
    if "pooler/dense/kernel" in ours.path:
        assert 0.01 < values[0].std() < 0.03
    else:
        assert np.array_equal(values[0], theirs), ours.path
print("same")
""",
        folder,
    )
    assert out.splitlines()[-1] == "same"


MEASURE = """
import sys
import keras_bert_zoo as kbz

def memory(what):
    for line in open("/proc/self/status"):
        if line.startswith(what):
            return int(line.split()[1]) * 1024 / 1e6

with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # The peak is counted anew.
before = memory("VmRSS")
encoder = kbz.BertEncoder.from_preset(sys.argv[1])
peak = memory("VmHWM") - before
print(sum(weight.value.shape.num_elements() for weight in encoder.trainable_weights) * 4e-6, peak)
"""


@pytest.mark.skipif(not pathlib.Path("/proc/self/clear_refs").exists(), reason="needs /proc")
def test_the_peak_is_the_model_and_200_mb(tmp_path, run_python):
    """For a bert_base of zeros: a sparse file takes no time to write and no space on the disk."""
    shapes = {
        "embeddings.word_embeddings.weight": (30522, 768),
        "embeddings.position_embeddings.weight": (512, 768),
        "embeddings.token_type_embeddings.weight": (2, 768),
        "pooler.dense.weight": (768, 768),
        "pooler.dense.bias": (768,),
    }
    norms = ["embeddings.LayerNorm"]
    for number in range(12):
        block = f"encoder.layer.{number}"
        for layer, width, wide in (
            ("attention.self.query", 768, 768),
            ("attention.self.key", 768, 768),
            ("attention.self.value", 768, 768),
            ("attention.output.dense", 768, 768),
            ("intermediate.dense", 768, 3072),
            ("output.dense", 3072, 768),
        ):
            shapes[f"{block}.{layer}.weight"] = (wide, width)
            shapes[f"{block}.{layer}.bias"] = (wide,)
        norms += [f"{block}.attention.output.LayerNorm", f"{block}.output.LayerNorm"]
    shapes |= {f"{norm}.{part}": (768,) for norm in norms for part in ("weight", "bias")}
    header, end = {}, 0
    for name, shape in shapes.items():
        start, end = end, end + 4 * int(np.prod(shape))
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    with open(tmp_path / "model.safetensors", "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + end)
    write_config(tmp_path, PRESETS["bert_base_uncased"].config.to_dict())
    model, peak = map(float, run_python(MEASURE, tmp_path).split())
    assert model == pytest.approx(437.93, abs=0.01)
    assert peak < model + 200
