"""The cross-entropy over a vocabulary against TensorFlow's own, values and gradients."""

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_zoo.tasks.cross_entropy import cross_entropy


def reference(logits, classes):
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=classes, logits=logits)


def with_gradient(function, logits, classes, weights):
    with tf.GradientTape() as tape:
        tape.watch(logits)
        losses = function(logits, classes)
        total = tf.reduce_sum(losses * weights)
    return losses, tape.gradient(total, logits)


def drawn(shape, width, scale, dtype="float32", class_dtype="int32"):
    random = np.random.default_rng(3)
    logits = tf.constant(random.normal(size=(*shape, width), scale=scale), dtype)
    classes = tf.constant(random.integers(0, width, shape), class_dtype)
    return logits, classes, tf.constant(random.random(shape), dtype)


@pytest.mark.parametrize("jit", [False, True, None])
@pytest.mark.parametrize("class_dtype", ["int32", "int64"])
@pytest.mark.parametrize("scale", [0, 1, 30, 1e4])
@pytest.mark.parametrize("shape", [(11,), (3, 5), (2, 3, 4), (0,), (3, 0)])
def test_equals_tensorflow(shape, scale, class_dtype, jit):
    logits, classes, weights = drawn(shape, 101, scale, class_dtype=class_dtype)

    def ours(*batch):
        return with_gradient(cross_entropy, *batch)

    run = ours if jit is None else tf.function(ours, jit_compile=jit)
    (losses, gradient), (expected, slope) = (
        run(logits, classes, weights),
        with_gradient(reference, logits, classes, weights),
    )
    np.testing.assert_allclose(losses, expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(gradient, slope, atol=1e-6)


def test_equals_the_formula_in_double_precision():
    logits, classes, weights = drawn((50,), 3001, 5, "float64")
    losses, _ = with_gradient(cross_entropy, logits, classes, weights)
    shifted = logits.numpy() - logits.numpy().max(-1, keepdims=True)
    exact = np.log(np.exp(shifted).sum(-1)) - shifted[np.arange(50), classes.numpy()]
    np.testing.assert_allclose(losses, exact, rtol=1e-13)
    single, _ = with_gradient(
        cross_entropy, tf.cast(logits, "float32"), classes, tf.cast(weights, "float32")
    )
    np.testing.assert_allclose(single, exact, rtol=1e-6)


def test_where_the_class_is_next_to_certain_or_impossible():
    logits = tf.constant([[0.0, 20.0, 0.0], [0.0, 200.0, 0.0], [0.0, -np.inf, 3.0]])
    for classes in ([1, 1, 2], [0, 0, 1]):
        found = with_gradient(cross_entropy, logits, tf.constant(classes), tf.ones(3))
        expected = with_gradient(reference, logits, tf.constant(classes), tf.ones(3))
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-7)


def test_what_is_no_number_stays_none():
    logits = tf.constant([[0.0, np.nan, 1.0], [0.0, 1.0, 2.0], [np.inf, 0.0, 1.0]])
    losses, gradient = with_gradient(cross_entropy, logits, tf.constant([0, 0, 1]), tf.ones(3))
    assert np.isfinite(losses).tolist() == [False, True, False]
    assert np.isfinite(gradient).all(axis=-1).tolist() == [False, True, False]


@pytest.mark.parametrize("wrong", [-1, 7])
def test_a_class_that_there_is_not(wrong):
    logits, classes = tf.zeros((2, 7)), tf.constant([1, wrong])
    with pytest.raises(tf.errors.InvalidArgumentError):
        cross_entropy(logits, classes)
    compiled = tf.function(with_gradient, jit_compile=True)
    losses, gradient = compiled(cross_entropy, logits, classes, tf.ones(2))
    assert np.isfinite(losses).tolist() == [True, False]
    assert np.isfinite(gradient).all(axis=-1).tolist() == [True, False]


@pytest.mark.parametrize("shape", [(3, 3, 1), (3,), (3, 4)])
def test_classes_of_another_shape(shape):
    with pytest.raises(ValueError, match="without its last axis"):
        cross_entropy(tf.zeros((3, 3, 7)), tf.zeros(shape, tf.int32))


def test_arrays_and_a_static_shape():
    losses = cross_entropy(np.zeros((2, 3), "float32"), np.array([0, 2]))
    np.testing.assert_allclose(losses, np.log([3, 3]), rtol=1e-6)
    signature = [tf.TensorSpec((None, None, 9)), tf.TensorSpec((None, None), tf.int32)]
    traced = tf.function(cross_entropy).get_concrete_function(*signature)
    assert traced.output_shapes.as_list() == [None, None]
    assert traced(tf.zeros((2, 4, 9)), tf.zeros((2, 4), tf.int32)).shape == (2, 4)
