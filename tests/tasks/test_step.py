"""The training step: means over the global batch, clipping, loss terms, on one and two replicas."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from tiny import VOCABULARY, tiny_classifier, tiny_encoder

import keras_bert_zoo as kbz

ROWS, LENGTH, SLOTS = 8, 12, 4


def pretraining_batch(seed=0):
    """Rows with unequal numbers of masked tokens, the last with none."""
    rng = np.random.default_rng(seed)
    ids = rng.integers(5, len(VOCABULARY), (ROWS, LENGTH)).astype("int32")
    weights = np.zeros((ROWS, SLOTS), "float32")
    for row, count in enumerate([4, 4, 4, 3, 1, 1, 1, 0]):
        weights[row, :count] = 1
    x = {
        "token_ids": ids,
        "segment_ids": np.zeros_like(ids),
        "padding_mask": np.ones_like(ids),
        "masked_positions": rng.integers(1, LENGTH - 1, (ROWS, SLOTS)).astype("int32"),
    }
    y = {
        "masked_ids": rng.integers(5, len(VOCABULARY), (ROWS, SLOTS)).astype("int32"),
        "masked_weights": weights,
        "next_sentence": rng.integers(0, 2, ROWS).astype("int32"),
        "next_sentence_weights": np.array([1, 1, 1, 1, 1, 0, 0, 0], "float32"),
    }
    return x, y


def pretraining_task(clip_norm=None, **changes):
    keras.utils.set_random_seed(1)
    rates = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    task = kbz.Pretraining(tiny_encoder(**(rates | changes)))
    task.compile(keras.optimizers.SGD(1.0), clip_norm=clip_norm)
    return task


def values(task):
    return [keras.ops.convert_to_numpy(weight) for weight in task.trainable_weights]


def test_loss_is_the_mean_over_masked_tokens_plus_the_mean_over_pairs():
    task = pretraining_task()
    x, y = pretraining_batch()
    outputs = {name: keras.ops.convert_to_numpy(out) for name, out in task(x).items()}

    def cross_entropy(logits, ids):
        logits = logits.astype("float64")
        logits -= np.log(np.exp(logits).sum(-1, keepdims=True))
        return -np.take_along_axis(logits, ids[..., None], -1)[..., 0]

    masked = cross_entropy(outputs["masked_lm_logits"], y["masked_ids"])
    pairs = cross_entropy(outputs["next_sentence_logits"], y["next_sentence"])
    expected = masked[y["masked_weights"] == 1].mean() + pairs[:5].mean()
    loss, *_ = task.compute_gradients(x, y)
    assert float(loss) == pytest.approx(expected, abs=1e-6)
    logs = task.evaluate(tf.data.Dataset.from_tensors((x, y)), verbose=0, return_dict=True)
    assert logs["loss"] == pytest.approx(expected, abs=1e-5)
    assert logs["loss"] == pytest.approx(
        logs["masked_lm_loss"] + logs["next_sentence_loss"], abs=1e-6
    )


def test_figures_do_not_depend_on_how_rows_are_batched():
    task = pretraining_task()
    rows = tf.data.Dataset.from_tensor_slices(pretraining_batch())
    whole = task.evaluate(rows.batch(8), verbose=0, return_dict=True)
    parts = task.evaluate(rows.batch(3), verbose=0, return_dict=True)
    assert whole == pytest.approx(parts, abs=1e-5)


def test_history_names():
    task = pretraining_task()
    rows = tf.data.Dataset.from_tensor_slices(pretraining_batch()).batch(4)
    history = task.fit(rows, validation_data=rows, verbose=0).history
    names = {
        "loss",
        "masked_lm_loss",
        "masked_lm_accuracy",
        "next_sentence_loss",
        "next_sentence_accuracy",
    }
    assert set(history) == names | {f"val_{name}" for name in names}


def test_a_batch_without_any_masked_token_gives_a_finite_step():
    task = pretraining_task()
    x, y = pretraining_batch()
    y["masked_weights"][:] = 0
    y["next_sentence_weights"][:] = 0
    before = values(task)
    logs = task.train_on_batch(x, y, return_dict=True)
    assert logs["loss"] == 0
    for old, new in zip(before, values(task), strict=True):
        np.testing.assert_array_equal(old, new)


def test_clipping_is_by_the_true_global_norm():
    x, y = pretraining_batch()
    free, clipped = pretraining_task(), pretraining_task(clip_norm=0.25)
    start = values(free)
    free.train_on_batch(x, y)
    clipped.train_on_batch(x, y)
    norms = [
        np.sqrt(sum(np.square(new - old).sum() for new, old in zip(values(t), start, strict=True)))
        for t in (free, clipped)
    ]
    assert norms[0] > 1
    assert norms[1] == pytest.approx(0.25, rel=1e-4)


def test_clipping_counts_a_row_looked_up_twice_as_one_gradient():
    # A classifier looks its token table up only, so the gradient arrives row by row.
    task = tiny_classifier(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    task.compile(keras.optimizers.SGD(1.0), clip_norm=1e-2)
    start = values(task)
    task.fit(["good good good good tea"], ["good"], verbose=0)
    moved = sum(np.square(n - o).sum() for n, o in zip(values(task), start, strict=True))
    assert np.sqrt(moved) == pytest.approx(1e-2, rel=1e-3)


@pytest.mark.parametrize("policy", ["float64", "mixed_bfloat16", "mixed_float16"])
def test_clipping_under_other_policies(policy):
    encoder = kbz.BertEncoder(tiny_encoder().config, dtype=policy)
    task = kbz.Pretraining(encoder)
    task.compile(keras.optimizers.SGD(0.1), clip_norm=1.0)
    logs = task.train_on_batch(*pretraining_batch(), return_dict=True)
    assert np.isfinite(logs["loss"])
    assert all(np.isfinite(value).all() for value in values(task))


def test_loss_scaling_leaves_the_step_alone():
    x, y = pretraining_batch()
    plain = pretraining_task(clip_norm=0.5)
    plain.train_on_batch(x, y)
    scaled = pretraining_task()
    scaled.compile(
        keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(1.0), initial_scale=1024.0),
        clip_norm=0.5,
    )
    scaled.train_on_batch(x, y)
    for left, right in zip(values(plain), values(scaled), strict=True):
        np.testing.assert_allclose(left, right, atol=1e-6)


def test_compile_refuses_what_would_go_wrong_silently():
    task = pretraining_task()
    with pytest.raises(ValueError, match=r"global_clipnorm=1.0.*clip_norm"):
        task.compile(keras.optimizers.Adam(global_clipnorm=1.0))
    with pytest.raises(ValueError, match=r"clipvalue=1.0"):
        task.compile(keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(clipvalue=1.0)))
    for clip_norm in (0.0, -1.0, float("inf"), float("nan")):
        with pytest.raises(ValueError, match="positive and finite"):
            task.compile("adam", clip_norm=clip_norm)
    with pytest.raises(ValueError, match="`optimizer`"):
        task.compile(None)
    with pytest.raises(ValueError, match="masked_lm_loss, next_sentence_loss"):
        task.compile("adam", loss="mse")
    with pytest.raises(ValueError, match="sequence_length"):
        task.compile("adam", jit_compile=True)
    with pytest.raises(ValueError, match="masked_weights"):
        x, y = pretraining_batch()
        task.fit(x, y, sample_weight=np.ones(ROWS), verbose=0)


def test_a_dataset_without_end_needs_steps():
    task = pretraining_task()
    endless = tf.data.Dataset.from_tensors(pretraining_batch()).repeat()
    with pytest.raises(ValueError, match="`steps_per_epoch="):
        task.fit(endless)
    with pytest.raises(ValueError, match="`steps="):
        task.evaluate(endless)
    with pytest.raises(ValueError, match="`validation_steps="):
        task.fit(endless, steps_per_epoch=1, validation_data=endless)
    logs = task.fit(
        endless, steps_per_epoch=2, validation_data=endless, validation_steps=1, verbose=0
    )
    assert len(logs.history["val_loss"]) == 1


def test_steps_per_execution_trains_alike():
    rows = tf.data.Dataset.from_tensor_slices(pretraining_batch()).batch(2)
    one, four = pretraining_task(), pretraining_task()
    four.compile(keras.optimizers.SGD(1.0), steps_per_execution=3)
    one.fit(rows, verbose=0)
    four.fit(rows, verbose=0)
    assert int(four.optimizer.iterations) == 4
    for left, right in zip(values(one), values(four), strict=True):
        np.testing.assert_allclose(left, right, atol=1e-5)


MIRRORED = """
import sys
import keras, numpy as np, tensorflow as tf
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
sys.path.insert(0, sys.argv[1])
from test_step import ROWS, pretraining_batch, pretraining_task, values

x, y = pretraining_batch()
rows = tf.data.Dataset.from_tensor_slices((x, y)).batch(ROWS)
one = pretraining_task(clip_norm=0.5)
loss, gradients, _, _ = one.compute_gradients(x, y)

strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    two = pretraining_task(clip_norm=0.5)

@tf.function
def step(batch):
    return strategy.run(lambda x, y: two.compute_gradients(x, y)[:2], args=batch)

losses, spread = step(next(iter(strategy.experimental_distribute_dataset(rows))))
for replica in strategy.experimental_local_results(losses):
    assert abs(float(replica) - float(loss)) < 1e-6, (float(replica), float(loss))
for alone, shared in zip(gradients, spread, strict=True):
    for replica in strategy.experimental_local_results(shared):
        error = np.linalg.norm(replica - alone) / max(np.linalg.norm(alone), 1e-6)
        assert error < 1e-5, error

# What a mean on each replica, averaged, would have given: the test must tell them apart.
half = [{k: v[:4] for k, v in part.items()} for part in (x, y)]
rest = [{k: v[4:] for k, v in part.items()} for part in (x, y)]
naive = np.mean([float(one.compute_gradients(*part)[0]) for part in (half, rest)])
assert abs(naive - float(loss)) > 1e-3, (naive, float(loss))

alone = one.fit(rows, epochs=2, verbose=0).history
shared = two.fit(rows, epochs=2, verbose=0).history
for name, column in alone.items():
    np.testing.assert_allclose(column, shared[name], atol=2e-6, err_msg=name)
for left, right in zip(values(one), values(two), strict=True):
    np.testing.assert_allclose(left, right, atol=1e-6)
left = one.evaluate(rows, verbose=0, return_dict=True)
right = two.evaluate(rows, verbose=0, return_dict=True)
for name in left:
    np.testing.assert_allclose(left[name], right[name], atol=2e-6, err_msg=name)
print("agreed")
"""


def test_two_replicas_of_four_rows_are_one_of_eight(run_python, request):
    source = MIRRORED
    paths = f"{request.path.parent}"
    tests = request.path.parent.parent
    out = run_python(source, paths, env={"PYTHONPATH": f"{tests.parent}:{tests}"})
    assert "agreed" in out
