"""Heads against those of `transformers`, with random weights: outputs and losses."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from reference_weights import assign, difference

import keras_bert_zoo as kbz
from keras_bert_zoo.tasks.multi_label import MultiLabelClassifier
from keras_bert_zoo.tasks.multiple_choice import MultipleChoice
from keras_bert_zoo.tasks.next_sentence import NextSentence
from keras_bert_zoo.tasks.question_answering import QuestionAnswering
from keras_bert_zoo.tasks.text_embedder import TextEmbedder
from keras_bert_zoo.tasks.token_classifier import TokenClassifier

REASON = "the `parity` extra is not installed"
torch = pytest.importorskip("torch", reason=REASON)
transformers = pytest.importorskip("transformers", reason=REASON)
from make_golden import random_batch, state_dict

LABELS = ["a", "b", "c", "d"]
LENGTH = 23
LENGTHS = ((23, 0), (9, 7), (2, 0), (12, 11), (4, 2), (15, 0))
ROWS = len(LENGTHS)
RANDOM = np.random.default_rng(5)


def reference(architecture, seed=1, **settings):
    """A model of `transformers` in evaluation mode, no parameter of which is trivial."""
    config = transformers.BertConfig(
        vocab_size=97,
        hidden_size=36,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=50,
        max_position_embeddings=40,
        attn_implementation="eager",
        **settings,
    )
    model = getattr(transformers, architecture)(config).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            values = torch.randn(parameter.shape, generator=generator)
            scaled = 1 + 0.2 * values if "LayerNorm.weight" in name else 0.3 * values
            parameter.copy_(scaled)
    return model


def weights_of(model):
    """The state dict as that of a model with a head and a pooler."""
    width = model.config.hidden_size
    found = {
        # The heads on tokens leave the pooler out, which our encoder has.
        "bert.pooler.dense.weight": np.zeros((width, width), np.float32),
        "bert.pooler.dense.bias": np.zeros(width, np.float32),
    }
    for name, value in state_dict(model).items():
        bare = isinstance(model, transformers.BertModel)
        found[f"bert.{name}" if bare else name] = value
    return found


def ours(task_class, model, *arguments, encoder=None, **settings):
    config = kbz.EncoderConfig.from_dict(model.config.to_dict())
    task = task_class(kbz.BertEncoder(config, **(encoder or {})), *arguments, **settings)
    assert task.architecture == type(model).__name__
    assign(task, weights_of(model), config)
    return task


def batch(lengths=LENGTHS, seed=3):
    inputs, _ = random_batch(seed, 97, lengths, LENGTH, 4)
    del inputs["masked_positions"]
    return inputs


def run_reference(model, inputs, **targets):
    """Outputs and loss, computed in float64."""
    names = {
        "input_ids": "token_ids",
        "token_type_ids": "segment_ids",
        "attention_mask": "padding_mask",
    }
    tensors = {theirs: torch.tensor(inputs[name]).long() for theirs, name in names.items()}
    with torch.no_grad():
        return model.double()(**tensors, **{k: torch.tensor(v) for k, v in targets.items()})


def loss_of(task, inputs, y, **settings):
    """The loss as a step of training has it; there is no dropout in evaluation."""
    task.compile("sgd")
    y = tf.nest.map_structure(tf.constant, y)
    x = {name: tf.constant(value) for name, value in inputs.items()}
    terms = task.loss_terms(x, y, task(x, training=False), settings.get("sample_weight"))
    value, weight = terms["loss"]
    evaluated = task.evaluate(inputs, y, batch_size=4, verbose=0)[0]
    assert evaluated == pytest.approx(float(value / weight), rel=1e-5)
    return float(value / weight)


def same(left, right):
    assert difference(left, right) <= 1e-5
    assert keras.ops.convert_to_numpy(left).std() > 0.1


@pytest.mark.parametrize("task_class", [kbz.TextClassifier, MultiLabelClassifier])
def test_sequence_classification(task_class):
    one_each = task_class is kbz.TextClassifier
    problem = "single_label_classification" if one_each else "multi_label_classification"
    model = reference("BertForSequenceClassification", num_labels=4, problem_type=problem)
    task, inputs = ours(task_class, model, LABELS), batch()
    y = RANDOM.integers(0, 4, ROWS) if one_each else RANDOM.integers(0, 2, (ROWS, 4)) * 1.0
    theirs = run_reference(model, inputs, labels=y)
    same(task(inputs), theirs.logits)
    assert loss_of(task, inputs, y) == pytest.approx(float(theirs.loss), rel=1e-6)


def test_left_to_right_language_model():
    """Theirs moves the labels by one place itself."""
    model = reference("BertLMHeadModel", is_decoder=True)
    task, inputs = ours(kbz.MaskedLM, model), batch()
    ids, mask = inputs["token_ids"], inputs["padding_mask"]
    theirs = run_reference(model, inputs, labels=np.where(mask, ids, -100).astype(np.int64))
    places = np.broadcast_to(np.arange(LENGTH - 1, dtype=np.int32), (ROWS, LENGTH - 1))
    inputs["masked_positions"] = places
    same(task(inputs)["masked_lm_logits"], theirs.logits[:, :-1])
    y = {"masked_ids": ids[:, 1:], "masked_weights": mask[:, 1:].astype(np.float32)}
    task.compile("sgd")
    evaluated = task.evaluate(inputs, y, batch_size=4, verbose=0)[0]
    assert evaluated == pytest.approx(float(theirs.loss), rel=1e-6)


def test_regression():
    model = reference("BertForSequenceClassification", num_labels=1)
    task, inputs = ours(kbz.TextClassifier, model), batch()
    y = RANDOM.normal(size=ROWS)
    theirs = run_reference(model, inputs, labels=y)
    same(task(inputs), theirs.logits)
    assert loss_of(task, inputs, y) == pytest.approx(float(theirs.loss), rel=1e-6)


def test_next_sentence():
    model = reference("BertForNextSentencePrediction")
    task, inputs = ours(NextSentence, model), batch()
    y = RANDOM.integers(0, 2, ROWS)
    theirs = run_reference(model, inputs, labels=y)
    same(task(inputs), theirs.logits)
    assert loss_of(task, inputs, y) == pytest.approx(float(theirs.loss), rel=1e-6)


def test_token_classification():
    model = reference("BertForTokenClassification", num_labels=4)
    task, inputs = ours(TokenClassifier, model, LABELS), batch()
    y = np.where(RANDOM.random((ROWS, LENGTH)) < 0.4, RANDOM.integers(0, 4, (ROWS, LENGTH)), -100)
    y[2] = -100
    theirs = run_reference(model, inputs, labels=y)
    same(task(inputs), theirs.logits)
    assert loss_of(task, inputs, y) == pytest.approx(float(theirs.loss), rel=1e-6)


def test_question_answering():
    """Theirs has padding in its softmax, so the losses are those of rows cut to their tokens."""
    model = reference("BertForQuestionAnswering")
    task, inputs = ours(QuestionAnswering, model), batch()
    counts = inputs["padding_mask"].sum(axis=1)
    y = {name: RANDOM.integers(0, counts) for name in ("start_positions", "end_positions")}
    theirs, logits = run_reference(model, inputs), task(inputs)
    real = inputs["padding_mask"] == 1
    for name in ("start_logits", "end_logits"):
        same(logits[name][real], theirs[name][real])
    losses = []
    for row, count in enumerate(counts):
        cut = {name: value[row : row + 1, :count] for name, value in inputs.items()}
        places = {name: column[row : row + 1] for name, column in y.items()}
        losses.append(float(run_reference(model, cut, **places).loss))
    assert loss_of(task, inputs, y) == pytest.approx(np.mean(losses), rel=1e-6)


@pytest.mark.parametrize("choices", [2, 3])
def test_multiple_choice(choices):
    model = reference("BertForMultipleChoice")
    task = ours(MultipleChoice, model)
    inputs = {k: v.reshape(-1, choices, LENGTH) for k, v in batch().items()}
    y = RANDOM.integers(0, choices, ROWS // choices)
    theirs = run_reference(model, inputs, labels=y)
    same(task(inputs), theirs.logits)
    assert loss_of(task, inputs, y) == pytest.approx(float(theirs.loss), rel=1e-6)


def test_a_choice_of_padding_is_none():
    model = reference("BertForMultipleChoice")
    task = ours(MultipleChoice, model)
    inputs = {k: v.reshape(-1, 3, LENGTH) for k, v in batch().items()}
    for part in inputs.values():
        part[:, 2] = 0
    fewer = {name: part[:, :2] for name, part in inputs.items()}
    y = np.array([1, 0])
    theirs = run_reference(model, fewer, labels=y)
    same(task(inputs)[:, :2], theirs.logits)
    assert loss_of(task, inputs, y) == pytest.approx(float(theirs.loss), rel=1e-6)


def pooled(states, mask, pooling):
    """Torch's pooling as sentence-transformers does it: https://www.sbert.net (models.Pooling)."""
    if pooling == "cls":
        return states[:, 0]
    mask = mask[:, :, None].double()
    if pooling == "max":
        return states.masked_fill(mask == 0, -1e9).max(dim=1).values
    return (states * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1e-9)


@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("layers", [None, [-1, -2, 0]])
def test_embedding(pooling, normalize, layers):
    model = reference("BertModel")
    task = ours(
        TextEmbedder,
        model,
        pooling=pooling,
        normalize=normalize,
        layers=layers,
        encoder={"output_hidden_states": True},
    )
    inputs = batch()
    model.config.output_hidden_states = True
    states = run_reference(model, inputs).hidden_states
    states = torch.cat([states[place] for place in layers or [-1]], dim=-1)
    expected = pooled(states, torch.tensor(inputs["padding_mask"]), pooling)
    if normalize:
        expected = torch.nn.functional.normalize(expected, dim=1)
    assert difference(task(inputs), expected) <= 1e-5
