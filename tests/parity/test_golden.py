"""Our BERT against figures that `transformers` gave once; `tests/make_golden.py` made them."""

import json
import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf
from reference_weights import assign, difference, gradient_differences, original_names

import keras_bert_zoo as kbz

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "golden"
NAMES = ("bert_gelu", "bert_gelu_new")


class Golden:
    """A golden file, and our models with its weights."""

    def __init__(self, name, **changes):
        with np.load(FOLDER / f"{name}.npz") as file:
            self.values = {key: file[key] for key in file}
        self.config = kbz.EncoderConfig.from_dict(json.loads(str(self.values["config"])) | changes)
        self.inputs, self.targets = self.part("inputs"), self.part("targets")
        self.outputs, self.gradients = self.part("outputs"), self.part("gradients")

    def part(self, name):
        return {
            key.split("/", 1)[1]: value
            for key, value in self.values.items()
            if key.startswith(f"{name}/")
        }

    def load(self, model):
        assign(model, self.part("weights"), self.config)
        return model

    def encoder(self, **kwargs):
        return self.load(
            kbz.BertEncoder(
                self.config, output_hidden_states=True, output_attentions=True, **kwargs
            )
        )

    def task(self):
        return self.load(kbz.Pretraining(kbz.BertEncoder(self.config)))

    @property
    def ids(self):
        return {key: value for key, value in self.inputs.items() if key != "masked_positions"}

    @property
    def full_targets(self):
        rows = len(self.targets["next_sentence"])
        return self.targets | {"next_sentence_weights": np.ones(rows, np.float32)}


@pytest.fixture(params=NAMES, scope="module")
def golden(request):
    return Golden(request.param)


def check_encoder(golden, outputs):
    states = golden.outputs["hidden_states"]
    assert len(outputs["hidden_states"]) == len(states) == golden.config.num_hidden_layers + 1
    for ours, theirs in zip(outputs["hidden_states"], states, strict=True):
        assert difference(ours, theirs) <= 1e-5
    for ours, theirs in zip(outputs["attentions"], golden.outputs["attentions"], strict=True):
        assert difference(ours, theirs) <= 1e-5
    assert difference(outputs["sequence_output"], states[-1]) <= 1e-5
    assert difference(outputs["pooled_output"], golden.outputs["pooled_output"]) <= 1e-5


@pytest.mark.parametrize("length", ["dynamic", "fixed"])
def test_every_state_and_the_pooled_vector(golden, length):
    fixed = golden.ids["token_ids"].shape[1] if length == "fixed" else None
    check_encoder(golden, golden.encoder(sequence_length=fixed)(golden.ids))


def test_in_a_compiled_graph(golden):
    encoder = golden.encoder(sequence_length=golden.ids["token_ids"].shape[1])
    compiled = tf.function(lambda ids: encoder(ids), jit_compile=True)
    check_encoder(golden, compiled({k: tf.constant(v) for k, v in golden.ids.items()}))


def test_logits_of_both_heads(golden):
    outputs = golden.task()(golden.inputs)
    used = golden.targets["masked_weights"] > 0
    ours = keras.ops.convert_to_numpy(outputs["masked_lm_logits"])
    assert difference(ours[used], golden.outputs["masked_lm_logits"][used]) <= 1e-4
    assert (
        difference(outputs["next_sentence_logits"], golden.outputs["next_sentence_logits"]) <= 1e-4
    )


def test_loss_and_all_gradients(golden):
    task = golden.task()
    task.compile(keras.optimizers.SGD(0.0))
    loss, gradients, _, _ = task.compute_gradients(
        {k: tf.constant(v) for k, v in golden.inputs.items()},
        {k: tf.constant(v) for k, v in golden.full_targets.items()},
    )
    assert abs(float(loss) / golden.outputs["loss"] - 1) <= 1e-4
    ours = original_names(task, gradients, golden.config.num_hidden_layers)
    differences = gradient_differences(ours, golden.gradients)
    assert max(differences.values()) <= 1e-4, differences
    for name in (
        "embeddings.word_embeddings.weight",
        "encoder.layer.1.attention.self.query.weight",
    ):
        assert np.linalg.norm(golden.gradients[f"bert.{name}"]) > 0.01


def test_evaluate_and_fit_report_that_loss():
    """Fewer rows than a batch, and batches of unequal numbers of masked tokens."""
    golden = Golden("bert_gelu")
    task = golden.task()
    task.compile(keras.optimizers.SGD(0.0))
    data = tf.data.Dataset.from_tensor_slices((golden.inputs, golden.full_targets))
    assert task.evaluate(data.batch(2), return_dict=True, verbose=0)["loss"] == pytest.approx(
        golden.outputs["loss"], rel=1e-5
    )
    logs = task.fit(data.batch(8), verbose=0).history
    assert logs["loss"][0] == pytest.approx(golden.outputs["loss"], rel=1e-5)


def test_ids_at_padding_do_not_matter(golden):
    encoder = golden.encoder()
    real = golden.ids["padding_mask"] == 1
    changed = {
        "token_ids": np.where(real, golden.ids["token_ids"], 7).astype(np.int32),
        "segment_ids": np.where(real, golden.ids["segment_ids"], 1).astype(np.int32),
        "padding_mask": golden.ids["padding_mask"],
    }
    assert (changed["token_ids"] != golden.ids["token_ids"]).sum() > 10
    before, after = encoder(golden.ids), encoder(changed)
    for old, new in zip(before["hidden_states"], after["hidden_states"], strict=True):
        old, new = keras.ops.convert_to_numpy(old), keras.ops.convert_to_numpy(new)
        assert difference(old[real], new[real]) <= 1e-6
        assert difference(old[~real], new[~real]) > 1e-2  # They did change there.
    assert difference(before["pooled_output"], after["pooled_output"]) <= 1e-6


@pytest.mark.parametrize(
    "name, change",
    [
        ("bert_gelu", {"hidden_act": "gelu_new"}),
        ("bert_gelu_new", {"hidden_act": "gelu"}),
        ("bert_gelu_new", {"layer_norm_eps": 1e-12}),
    ],
)
def test_the_figures_would_show_a_wrong_setting(name, change):
    golden = Golden(name, **change)
    outputs = golden.encoder()(golden.ids)
    assert difference(outputs["sequence_output"], golden.outputs["hidden_states"][-1]) > 2e-5


@pytest.mark.parametrize("name", NAMES)
def test_the_file_is_small_and_says_its_versions(name):
    golden = Golden(name)
    assert (FOLDER / f"{name}.npz").stat().st_size < 200_000
    assert json.loads(str(golden.values["versions"])).keys() >= {"torch", "transformers"}
