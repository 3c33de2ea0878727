"""Our BERT, optimizer and schedule against torch and `transformers`, where they are installed."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from reference_weights import assign, difference, gradient_differences, original_names

import keras_bert_zoo as kbz

REASON = "the `parity` extra is not installed"
torch = pytest.importorskip("torch", reason=REASON)
transformers = pytest.importorskip("transformers", reason=REASON)
from make_golden import random_batch, random_model, reference_run, state_dict

MEDIUM = {
    "vocab_size": 1000,
    "hidden_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 150,
    "max_position_embeddings": 128,
}


def run_both(seed, lengths, length, predictions=20, stddev=0.2, backward=True, **sizes):
    model = random_model(seed, stddev, **sizes)
    inputs, targets = random_batch(seed, model.config.vocab_size, lengths, length, predictions)
    outputs, gradients = reference_run(model, inputs, targets, backward)
    config = kbz.EncoderConfig.from_dict(model.config.to_dict())
    task = kbz.Pretraining(kbz.BertEncoder(config, output_hidden_states=True))
    assign(task, state_dict(model), config)
    return task, inputs, targets, outputs, gradients


def ids_of(inputs):
    return {name: value for name, value in inputs.items() if name != "masked_positions"}


@pytest.mark.parametrize("seed, hidden_act", [(11, "gelu"), (12, "gelu_new"), (13, "gelu")])
def test_a_medium_model(seed, hidden_act):
    lengths = ((128, 0), (30, 0), (3, 2), (60, 68), (100, 15), (2, 0))
    task, inputs, targets, outputs, gradients = run_both(
        seed, lengths, 128, hidden_act=hidden_act, **MEDIUM
    )
    encoded = task.encoder(ids_of(inputs))
    for ours, theirs in zip(encoded["hidden_states"], outputs["hidden_states"], strict=True):
        assert difference(ours, theirs) <= 1e-5
    assert difference(encoded["pooled_output"], outputs["pooled_output"]) <= 1e-5

    heads = task(inputs)
    used = targets["masked_weights"] > 0
    logits = keras.ops.convert_to_numpy(heads["masked_lm_logits"])
    assert difference(logits[used], outputs["masked_lm_logits"][used]) <= 1e-4
    assert difference(heads["next_sentence_logits"], outputs["next_sentence_logits"]) <= 1e-4

    task.compile(keras.optimizers.SGD(0.0))
    weights = {"next_sentence_weights": np.ones(len(lengths), np.float32)}
    loss, ours, _, _ = task.compute_gradients(
        {name: tf.constant(value) for name, value in inputs.items()},
        {name: tf.constant(value) for name, value in (targets | weights).items()},
    )
    assert abs(float(loss) / outputs["loss"] - 1) <= 1e-5
    ours = original_names(task, ours, task.encoder.config.num_hidden_layers)
    differences = gradient_differences(ours, gradients)
    assert max(differences.values()) <= 1e-4, differences


def test_a_model_of_bert_base_size():
    """12 layers of 768 and the whole vocabulary, with the spread of BERT's own weights."""
    task, inputs, _, outputs, _ = run_both(21, ((40, 0), (14, 20)), 40, stddev=0.04, backward=False)
    assert task.encoder.config == kbz.EncoderConfig(
        vocab_size=30522, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
    )
    encoded = task.encoder(ids_of(inputs))
    for ours, theirs in zip(encoded["hidden_states"], outputs["hidden_states"], strict=True):
        assert difference(ours, theirs) <= 1e-4
    assert difference(encoded["pooled_output"], outputs["pooled_output"]) <= 1e-4
    assert keras.ops.convert_to_numpy(encoded["sequence_output"]).std() > 0.5


@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e-6], ids=lambda scale: f"gradients of {scale:g}")
def test_adamw(scale):
    """Five steps of a decaying rate; small gradients show where epsilon is added."""
    random = np.random.default_rng(3)
    start = random.normal(size=(4, 5)).astype(np.float32)
    gradients = (scale * random.normal(size=(5, 4, 5))).astype(np.float32)

    variable = keras.Variable(start, name="kernel")
    optimizer = kbz.adamw(0.01, total_steps=20, warmup_steps=2, weight_decay=0.1)
    for gradient in gradients:
        optimizer.apply([tf.constant(gradient)], [variable])

    parameter = torch.nn.Parameter(torch.tensor(start))
    reference = torch.optim.AdamW([parameter], lr=0.01, eps=1e-6, weight_decay=0.1)
    schedule = transformers.get_linear_schedule_with_warmup(reference, 2, 20)
    for gradient in gradients:
        parameter.grad = torch.tensor(gradient)
        reference.step()
        schedule.step()
    moved = np.abs(parameter.detach().numpy() - start).max()
    assert moved > 1e-3
    assert difference(variable, parameter.detach().numpy()) <= 1e-4 * moved


@pytest.mark.parametrize("warmup, total", [(0, 50), (10, 50), (49, 50), (50, 50), (0, 1), (1, 1)])
def test_schedule(warmup, total):
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([parameter], lr=5e-5)
    reference = transformers.get_linear_schedule_with_warmup(optimizer, warmup, total)
    ours = kbz.WarmupLinear(5e-5, total_steps=total, warmup_steps=warmup)
    for step in range(total + 3):
        assert float(ours(step)) == pytest.approx(reference.get_last_lr()[0], rel=1e-5, abs=1e-12)
        optimizer.step()
        reference.step()
