"""The learning rate at every step, case BC-X01 among them."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bert_zoo as kbz
from keras_bert_zoo.optimizers.schedules import make_schedule


def rate(schedule, step):
    return float(schedule(step))


def test_the_reported_case():
    """BC-X01 in the continuous form: no drop where the warm-up ends."""
    schedule = kbz.WarmupLinear(5e-5, total_steps=100, warmup_steps=10)
    right = {0: 0, 1: 5e-6, 9: 4.5e-5, 10: 5e-5, 11: 5e-5 * 89 / 90, 55: 2.5e-5, 100: 0}
    for step, expected in right.items():
        assert rate(schedule, step) == pytest.approx(expected, rel=1e-6, abs=1e-12)
    assert rate(schedule, 11) == pytest.approx(4.944e-5, rel=1e-4)


@pytest.mark.parametrize("warmup, total", [(0, 1), (1, 1), (0, 7), (3, 7), (6, 7), (7, 7)])
def test_every_step_of_short_trainings(warmup, total):
    schedule = kbz.WarmupLinear(0.5, total_steps=total, warmup_steps=warmup)
    for step in range(total + 5):
        if step >= total:
            expected = 0
        elif step < warmup:
            expected = 0.5 * step / warmup
        else:
            expected = 0.5 * (total - step) / (total - warmup)
        value = rate(schedule, step)
        assert np.isfinite(value)
        assert value == pytest.approx(expected, rel=1e-6, abs=1e-9)
        assert 0 <= value <= 0.5


def test_without_warmup_the_first_step_has_the_peak():
    assert rate(kbz.WarmupLinear(0.1, total_steps=10), 0) == pytest.approx(0.1)


def test_the_papers_million_steps():
    schedule = kbz.WarmupLinear(1e-4, total_steps=1_000_000, warmup_steps=10_000)
    assert rate(schedule, 10_000) == pytest.approx(1e-4)
    assert rate(schedule, 505_000) == pytest.approx(5e-5, rel=1e-5)
    assert rate(schedule, 999_999) == pytest.approx(1e-4 / 990_000, rel=1e-3)
    assert rate(schedule, 1_000_000) == 0


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32"])
@pytest.mark.parametrize("jit", [False, True])
def test_in_a_graph(dtype, jit):
    schedule = kbz.WarmupLinear(1.0, total_steps=4, warmup_steps=2)
    run = tf.function(lambda step: schedule(step), jit_compile=jit)
    values = [float(run(tf.constant(step, dtype))) for step in range(6)]
    assert values == pytest.approx([0, 0.5, 1, 0.5, 0, 0])


def test_serialization():
    schedule = kbz.WarmupLinear(0.25, total_steps=20, warmup_steps=5)
    config = keras.optimizers.schedules.serialize(schedule)
    again = keras.optimizers.schedules.deserialize(config)
    assert type(again) is kbz.WarmupLinear
    assert again.get_config() == {"peak": 0.25, "total_steps": 20, "warmup_steps": 5}


@pytest.mark.parametrize(
    "arguments, said",
    [
        ((0.1, 0, 0), r"total_steps.*at least 1.*0"),
        ((0.1, -3, 0), r"total_steps.*at least 1.*-3"),
        ((0.1, 10, 11), r"warmup_steps=11, total_steps=10"),
        ((0.1, 10, -1), r"warmup_steps=-1, total_steps=10"),
        ((-0.1, 10, 1), r"peak.*-0\.1"),
        ((float("nan"), 10, 1), r"peak.*nan"),
    ],
)
def test_refusals(arguments, said):
    with pytest.raises(ValueError, match=said):
        kbz.WarmupLinear(*arguments)
    with pytest.raises(ValueError, match=said):
        kbz.adamw(*arguments)


def test_polynomial_cosine_and_constant():
    polynomial = make_schedule("polynomial", 0.5, 12, 2, power=2.0, end=0.1)
    cosine = make_schedule("cosine", 0.5, 12, 2, end=0.1)
    constant = make_schedule("constant", 0.5, 12, 2)
    for step in range(16):
        left = np.clip((12 - step) / 10, 0, 1)
        rising = 0.5 * step / 2
        expected = {
            polynomial: 0.1 + 0.4 * left**2,
            cosine: 0.1 + 0.4 * (1 - np.cos(np.pi * left)) / 2,
            constant: 0.5,
        }
        for schedule, value in expected.items():
            right = rising if step < 2 else value
            assert rate(schedule, step) == pytest.approx(right, rel=1e-5)
            again = keras.optimizers.schedules.deserialize(
                keras.optimizers.schedules.serialize(schedule)
            )
            assert rate(again, step) == rate(schedule, step)
    linear, same = kbz.WarmupLinear(0.5, 12, 2), make_schedule("polynomial", 0.5, 12, 2)
    assert [rate(linear, s) for s in range(15)] == [rate(same, s) for s in range(15)]


@pytest.mark.parametrize("name", ["linear", "polynomial", "cosine"])
@pytest.mark.parametrize("warmup, total", [(0, 1), (1, 1), (0, 5), (5, 5)])
def test_each_begins_and_ends_where_it_should(name, warmup, total):
    schedule = make_schedule(name, 0.5, total, warmup)
    values = [rate(schedule, step) for step in range(total + 3)]
    assert np.isfinite(values).all() and min(values) >= 0 and max(values) <= 0.5
    assert values[0] == (0 if warmup else 0.5)
    assert values[total:] == pytest.approx([0, 0, 0], abs=1e-8)


@pytest.mark.parametrize("warmup, total", [(0, 1), (1, 1), (0, 7), (3, 7), (7, 7)])
@pytest.mark.parametrize("peak", [0.0, 3e-5, 0.3])
def test_none_is_ever_above_the_peak_nor_below_the_end(peak, warmup, total):
    end = peak / 10
    for schedule in (
        kbz.WarmupPolynomial(peak, total, warmup, power=0.3, end=end),
        kbz.WarmupPolynomial(peak, total, warmup, power=3.0, end=peak),
        kbz.WarmupCosine(peak, total, warmup, end=end),
        kbz.WarmupConstant(peak, warmup),
    ):
        values = np.array([rate(schedule, step) for step in range(total + 4)])
        highest = float(np.float32(peak))
        assert values.max() <= highest
        assert values[:warmup] == pytest.approx([peak * t / max(warmup, 1) for t in range(warmup)])
        if warmup < total:
            assert values[warmup] == highest
        assert values[warmup:].min() >= getattr(schedule, "end", peak) * (1 - 1e-6)
        last = highest if isinstance(schedule, kbz.WarmupConstant) else schedule.end
        assert values[total:] == pytest.approx([last] * 4)
        assert rate(schedule, 10**9) == pytest.approx(last)


@pytest.mark.parametrize("jit", [False, True])
def test_the_others_in_a_graph(jit):
    for name, half in (("polynomial", 0.25), ("cosine", 0.5), ("constant", 1.0)):
        more = {"power": 2.0} if name == "polynomial" else {}
        schedule = make_schedule(name, 1.0, 4, 2, **more)
        run = tf.function(lambda step, schedule=schedule: schedule(step), jit_compile=jit)
        values = [float(run(tf.constant(step, "int64"))) for step in range(6)]
        end = 1.0 if name == "constant" else 0.0
        assert values == pytest.approx([0, 0.5, 1, half, end, end], abs=1e-7), name


@pytest.mark.parametrize("name", ["linear", "polynomial", "cosine", "constant"])
def test_all_refuse_what_the_linear_one_does(name):
    for peak, warmup, said in ((-0.1, 1, "peak.*-0.1"), (0.1, -1, "-1"), (0.1, 0.5, "whole.*0.5")):
        with pytest.raises(ValueError, match=said):
            make_schedule(name, peak, 10, warmup)
    if name != "constant":
        with pytest.raises(ValueError, match="warmup_steps=11, total_steps=10"):
            make_schedule(name, 0.1, 10, 11)


def test_no_such_schedule():
    with pytest.raises(ValueError, match="linear, polynomial, cosine, constant.*'step'"):
        make_schedule("step", 0.1, 10)
    with pytest.raises(ValueError, match="`power`.*0"):
        make_schedule("polynomial", 0.1, 10, power=0)
    with pytest.raises(ValueError, match="`end`.*0.2"):
        make_schedule("cosine", 0.1, 10, end=0.2)
