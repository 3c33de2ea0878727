"""Fine-tuning: a few epochs, the task's own metric after each, the best weights kept."""

import dataclasses
import math
import time
from collections.abc import Callable, Mapping, Sequence

import keras
import numpy as np

from keras_bert_zoo.datasets.pipeline import EncodedExamples
from keras_bert_zoo.optimizers.adamw import adamw
from keras_bert_zoo.tasks.base import Task


@dataclasses.dataclass(frozen=True)
class Finetuned:
    """What came of a fine-tuning.

    Attributes:
        scores: the scores of the best epoch, whose weights the task has.
        best_epoch: its number, from 1; 0 if no epoch was better than none.
        history: for each epoch its scores, with `loss`, `epoch` and `seconds` of training.
    """

    scores: Mapping[str, float]
    best_epoch: int
    history: Sequence[Mapping[str, float]]


def finetune(
    task: Task,
    train: EncodedExamples,
    evaluate: Callable[[], Mapping[str, float]],
    metric: str,
    epochs: float = 3,
    batch_size: int = 32,
    learning_rate: float = 3e-5,
    warmup_proportion: float = 0.1,
    weight_decay: float = 0.01,
    clip_norm: float = 1.0,
    seed: int = 0,
    verbose="auto",
    **compile_arguments,
) -> Finetuned:
    """Fine-tunes a task by BERT's recipe (arXiv 1810.04805, appendix A.3).

    AdamW, a linear warm-up and decay to zero over all steps, gradients clipped by their global
    norm. After each epoch the task's own metric is asked for, and the weights of the epoch where it
    was highest are the ones that stay.

    Args:
        task: the task, which is compiled anew.
        train: the examples.
        evaluate: gives the scores of the task as it stands.
        metric: which of the scores decides; a score of NaN is the lowest.
        epochs: passes over the examples; a fraction is a part of the last one.
        batch_size: examples a batch.
        learning_rate: the peak.
        warmup_proportion: share of the steps over which the rate rises.
        weight_decay, clip_norm: as in `adamw` and `Task.compile`.
        seed: seed of the order of the examples.
        verbose: as in `keras.Model.fit`.
        **compile_arguments: further arguments of `Task.compile`.

    Raises:
        ValueError: if there is less than one step, or `evaluate` does not give the metric.
    """
    batches = math.ceil(len(train) / batch_size)
    steps = round(epochs * batches)
    if steps < 1:
        raise ValueError(
            f"There must be one step at least. Received: epochs={epochs} of {batches} batches."
        )
    optimizer = adamw(
        learning_rate,
        total_steps=steps,
        warmup_steps=round(warmup_proportion * steps),
        weight_decay=weight_decay,
    )
    task.compile(optimizer, clip_norm=clip_norm, **compile_arguments)
    dataset = train.training_batches(batch_size, seed)
    best, best_epoch, history, kept = -math.inf, 0, [], None
    for epoch in range(1, math.ceil(steps / batches) + 1):
        todo = min(batches, steps - (epoch - 1) * batches)
        start = time.perf_counter()
        logs = task.fit(
            dataset,
            initial_epoch=epoch - 1,
            epochs=epoch,
            steps_per_epoch=None if todo == batches else todo,
            verbose=verbose,
        ).history
        seconds = time.perf_counter() - start
        scores = dict(evaluate())
        if metric not in scores:
            raise ValueError(f"The scores {', '.join(scores)} do not have {metric!r}.")
        history.append({"epoch": epoch, "loss": logs["loss"][-1], "seconds": seconds, **scores})
        value = -math.inf if math.isnan(scores[metric]) else scores[metric]
        if value > best:
            best, best_epoch = value, epoch
            kept = [np.array(weight) for weight in task.weights]
    if kept is not None and best_epoch < len(history):
        for weight, value in zip(task.weights, kept, strict=True):
            weight.assign(value)
    chosen = history[max(best_epoch, 1) - 1]
    scores = {name: chosen[name] for name in chosen if name not in ("epoch", "loss", "seconds")}
    return Finetuned(scores, best_epoch, history)


def over_seeds(
    run: Callable[[int], Mapping[str, float]], seeds: Sequence[int]
) -> dict[str, dict[str, float]]:
    """Runs a fine-tuning with several seeds, as short ones vary.

    Args:
        run: fine-tunes with a seed and gives scores. `keras.utils.set_random_seed` is called
            before it with that seed.
        seeds: the seeds, each once.

    Returns:
        By score: `mean`, `std` (of a sample; `None` for one seed), `min`, `max` and `values`.

    Raises:
        ValueError: if there is no seed, or one stands twice.
    """
    seeds = list(seeds)
    if not seeds or len(set(seeds)) != len(seeds):
        raise ValueError(f"`seeds` must be different numbers, one or more. Received: {seeds}")
    runs = []
    for seed in seeds:
        keras.utils.set_random_seed(seed)
        runs.append(dict(run(seed)))
    found = {}
    for name in runs[0]:
        values = [scores[name] for scores in runs]
        found[name] = {
            "mean": float(np.mean(values)),
            "std": float(np.std(values, ddof=1)) if len(values) > 1 else None,
            "min": min(values),
            "max": max(values),
            "values": values,
        }
    return found
