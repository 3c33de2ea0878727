"""LAMB against the formulas of its paper, in numpy."""

import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from tiny import tiny_classifier

from keras_bert_zoo.optimizers.lamb import Lamb
from keras_bert_zoo.optimizers.schedules import WarmupLinear

BETA_1, BETA_2, EPSILON, DECAY = 0.9, 0.999, 1e-6, 0.1


def by_the_paper(start, gradients, rates, spared, corrected=True):
    """Algorithm 2 of arXiv 1904.00962 in float64."""
    w, m, v = start.astype(np.float64), 0.0, 0.0
    for t, (g, rate) in enumerate(zip(gradients, rates, strict=True), 1):
        g = g.astype(np.float64)
        m = BETA_1 * m + (1 - BETA_1) * g
        v = BETA_2 * v + (1 - BETA_2) * g**2
        m_hat, v_hat = (m / (1 - BETA_1**t), v / (1 - BETA_2**t)) if corrected else (m, v)
        u = m_hat / (np.sqrt(v_hat) + EPSILON) + (0 if spared else DECAY) * w
        norms = np.linalg.norm(w), np.linalg.norm(u)
        ratio = 1.0 if spared or 0 in norms else norms[0] / norms[1]
        w = w - rate * ratio * u
    return w


def trained(optimizer, start, gradients, name, graph=True):
    variable = keras.Variable(start, name=name)
    optimizer.build([variable])
    step = tf.function(lambda g: optimizer.apply([g], [variable])) if graph else None
    for gradient in gradients:
        step(tf.constant(gradient)) if graph else optimizer.apply([gradient], [variable])
    return keras.ops.convert_to_numpy(variable)


@pytest.mark.parametrize("corrected", [True, False])
@pytest.mark.parametrize("name", ["kernel", "bias", "gamma", "beta"])
def test_twenty_steps_are_the_papers(name, corrected):
    rng = np.random.default_rng(0)
    start = rng.normal(size=(4, 3)).astype("float32")
    gradients = rng.normal(size=(20, 4, 3)).astype("float32") * 10.0 ** rng.integers(-4, 2, 20)[
        :, None, None
    ].astype("float32")
    schedule = WarmupLinear(0.05, 30, 5)
    rates = [float(schedule(step)) for step in range(20)]
    expected = by_the_paper(start, gradients, rates, name != "kernel", corrected)
    optimizer = Lamb(schedule, DECAY, BETA_1, BETA_2, EPSILON, corrected)
    found = trained(optimizer, start, gradients, name)
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-6)
    assert np.abs(found - start).max() > 0.01
    theirs = keras.optimizers.Lamb(
        schedule, BETA_1, BETA_2, EPSILON, weight_decay=DECAY if name == "kernel" else None
    )
    if name == "kernel":  # Keras's has the decay outside of the ratio.
        other = trained(theirs, start, gradients, name)
        assert np.abs(other - expected).max() > 1e-3


def test_a_step_without_gradient_decays_what_is_not_spared():
    start = np.full((2, 2), 2.0, "float32")
    zero = np.zeros((1, 2, 2), "float32")
    # The update is the decay alone, whose ratio makes it as long as the weight.
    np.testing.assert_allclose(
        trained(Lamb(0.1, DECAY), start, zero, "kernel"), start * 0.9, rtol=1e-6
    )
    for name in ("bias", "beta", "gamma"):
        np.testing.assert_array_equal(trained(Lamb(0.1, DECAY), start, zero, name), start)


def test_a_weight_of_zeros_moves_as_by_adam():
    start = np.zeros((2, 2), "float32")
    gradient = np.ones((1, 2, 2), "float32")
    for graph in (True, False):
        found = trained(Lamb(0.1, DECAY), start, gradient, "kernel", graph)
        np.testing.assert_allclose(found, -0.1, rtol=1e-5)
        assert not trained(Lamb(0.1, DECAY), start, gradient * 0, "kernel", graph).any()


def test_it_trains_and_goes_on_from_a_file(tmp_path):
    keras.utils.set_random_seed(0)
    task = tiny_classifier(initializer_range=0.3, hidden_dropout_prob=0.0)
    task.compile(Lamb(WarmupLinear(0.1, 40, 4)), clip_norm=1.0)
    texts, labels = ["good film", "bad film"] * 8, ["good", "bad"] * 8
    losses = task.fit(texts, labels, batch_size=4, epochs=10, verbose=0).history["loss"]
    assert losses[-1] < losses[0] / 2
    task.save(tmp_path / "task.keras")
    program = (
        "import sys, keras, numpy as np, keras_bert_zoo;"
        "o = keras.saving.load_model(sys.argv[1]).optimizer;"
        "np.savez(sys.argv[2], *map(keras.ops.convert_to_numpy, o.variables));"
        "assert o.decay_rate == 0.01 and o.weight_decay is None"
    )
    path = tmp_path / "variables.npz"
    subprocess.run([sys.executable, "-c", program, tmp_path / "task.keras", path], check=True)
    with np.load(path) as file:
        for name, variable in zip(file.files, task.optimizer.variables, strict=True):
            np.testing.assert_array_equal(file[name], keras.ops.convert_to_numpy(variable))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"beta_1": 1.0}, "beta_1.*1.0"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"weight_decay": -0.1}, "weight_decay.*-0.1"),
    ],
)
def test_refusals(arguments, message):
    with pytest.raises(ValueError, match=message):
        Lamb(**arguments)
    with pytest.raises(ValueError, match="mixed"):
        Lamb().build([keras.Variable(np.zeros(2), dtype="bfloat16", name="kernel")])
