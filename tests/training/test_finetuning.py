"""The best epoch's weights stay, the schedule covers all steps, and seeds make the run."""

import math

import keras
import numpy as np
import pytest
from tiny import tiny_classifier

from keras_bert_zoo.datasets.pipeline import encode
from keras_bert_zoo.training.finetuning import finetune, over_seeds

TEXTS = ["a good film", "a fine cup", "good tea", "a bad film", "bad tea", "the bad cup"] * 4
TARGETS = np.array([1, 1, 1, 0, 0, 0] * 4)


def setup(seed=0):
    keras.utils.set_random_seed(seed)
    task = tiny_classifier()
    return task, encode(task.read_texts, TEXTS, TARGETS)


def test_it_learns_and_tells_its_history():
    task, examples = setup()

    def evaluate():
        hits = np.zeros(len(TEXTS))
        for numbers, logits in examples.outputs(task, 8):
            hits[numbers] = logits.argmax(axis=1) == TARGETS[numbers]
        return {"accuracy": float(hits.mean())}

    tuned = finetune(task, examples, evaluate, "accuracy", epochs=20, batch_size=8,
                     learning_rate=2e-2, verbose=0)  # fmt: skip
    assert tuned.scores == {"accuracy": 1.0}
    assert [row["epoch"] for row in tuned.history] == list(range(1, 21))
    assert tuned.history[-1]["loss"] < tuned.history[0]["loss"]
    assert tuned.best_epoch == next(r["epoch"] for r in tuned.history if r["accuracy"] == 1.0)
    assert evaluate() == tuned.scores
    assert int(task.optimizer.iterations) == 60
    assert float(task.optimizer.learning_rate) == pytest.approx(0, abs=1e-9)


def test_the_weights_of_the_best_epoch_stay():
    task, examples = setup()
    scores = iter([0.3, 0.9, math.nan, 0.9, 0.1])
    seen = []

    def evaluate():
        seen.append([np.array(weight) for weight in task.weights])
        return {"f1": next(scores), "other": 1.0}

    tuned = finetune(task, examples, evaluate, "f1", epochs=5, batch_size=8, verbose=0)
    assert tuned.best_epoch == 2
    assert tuned.scores == {"f1": 0.9, "other": 1.0}
    for weight, value in zip(task.weights, seen[1], strict=True):
        assert np.array_equal(weight, value)
    assert any(not np.array_equal(a, b) for a, b in zip(seen[1], seen[4], strict=True))


def test_a_part_of_an_epoch():
    task, examples = setup()
    tuned = finetune(task, examples, lambda: {"x": 1.0}, "x", epochs=1.34, batch_size=8, verbose=0)
    assert len(tuned.history) == 2
    assert int(task.optimizer.iterations) == 4


def test_each_epoch_has_another_order():
    task, examples = setup()
    drawn = []
    step = task.loss_terms

    def watching(x, y, outputs, sample_weight):
        drawn.append(tuple(y.numpy().tolist()))
        return step(x, y, outputs, sample_weight)

    task.loss_terms = watching
    finetune(task, examples, lambda: {"x": 1.0}, "x", epochs=3, batch_size=8, verbose=0,
             run_eagerly=True)  # fmt: skip
    epochs = [drawn[n : n + 3] for n in range(0, 9, 3)]
    assert len({tuple(epoch) for epoch in epochs}) == 3


def test_the_same_seed_gives_the_same_run():
    def run(seed):
        task, examples = setup(seed)
        tuned = finetune(
            task, examples, lambda: {"x": 1.0}, "x", epochs=2, batch_size=8, seed=seed, verbose=0
        )
        return [row["loss"] for row in tuned.history]

    assert run(1) == run(1)
    assert run(1) != run(2)


def test_what_cannot_be():
    task, examples = setup()
    with pytest.raises(ValueError, match="one step at least"):
        finetune(task, examples, dict, "x", epochs=0)
    with pytest.raises(ValueError, match="The scores a do not have 'x'"):
        finetune(task, examples, lambda: {"a": 1}, "x", epochs=1, verbose=0)


def test_several_seeds():
    found = over_seeds(lambda seed: {"f1": 0.5 + seed / 10, "loss": 1.0}, [1, 2, 3])
    assert found["f1"]["values"] == pytest.approx([0.6, 0.7, 0.8])
    assert found["f1"]["mean"] == pytest.approx(0.7)
    assert found["f1"]["std"] == pytest.approx(0.1)
    assert (found["f1"]["min"], found["f1"]["max"]) == pytest.approx((0.6, 0.8))
    assert over_seeds(lambda seed: {"x": 1.0}, [7])["x"]["std"] is None
    for seeds in ([], [1, 1]):
        with pytest.raises(ValueError, match="different numbers"):
            over_seeds(lambda seed: {"x": 1.0}, seeds)
    draws = over_seeds(lambda seed: {"x": float(keras.random.uniform(()))}, [1, 2])
    again = over_seeds(lambda seed: {"x": float(keras.random.uniform(()))}, [1, 2])
    assert draws["x"]["values"] == again["x"]["values"]
    assert len(set(draws["x"]["values"])) == 2
