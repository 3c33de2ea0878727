"""Training by steps, on one device or many, which a kill at any moment does not harm."""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import keras
import numpy as np
import tensorflow as tf

from keras_bert_zoo.encoders.transformer import check_jit
from keras_bert_zoo.tasks.step import SteppedModel
from keras_bert_zoo.training.epoch_means import EpochMeans
from keras_bert_zoo.training.nonfinite import NonfiniteSteps
from keras_bert_zoo.training.signals import NotedSignal
from keras_bert_zoo.training.snapshots import Snapshots
from keras_bert_zoo.training.state import TrainingState
from keras_bert_zoo.training.stepping import Stepper
from keras_bert_zoo.training.strategies import is_chief

# Callbacks that write files, which one worker does for all.
_WRITING = (
    keras.callbacks.BackupAndRestore,
    keras.callbacks.CSVLogger,
    keras.callbacks.ModelCheckpoint,
    keras.callbacks.TensorBoard,
)


class Trainer:
    """Trains a task step by step, with snapshots from which it goes on as if nothing had happened.

    The step is the task's own, the one that `fit` runs: means over the real examples of the global
    batch, clipping after the reduction, dropout different on each replica. The same command run
    again continues from the newest snapshot that is whole; on CPU, bit for bit.

    Args:
        task: the task, made in the strategy's scope. It is compiled here.
        optimizer: the optimizer or its name, not built yet. Under a strategy a copy of it is made
            in the scope, which is `task.optimizer`.
        strategy: a `tf.distribute.Strategy`; by default the one in whose scope the call stands.
        clip_norm: as in `Task.compile`.
        accumulation_steps: parts in which each replica's rows pass through the model, for batches
            that do not fit in memory. The result is that of the whole batch, of which each is one
            step of the optimizer and its rate; a last one of fewer rows has smaller or fewer parts.
        steps_per_call: steps that one call from Python makes, for less overhead. Snapshots,
            callbacks and a stop come between calls.
        checkpoint_dir: folder of the snapshots; `None` for none.
        save_steps, save_minutes: how often to write one; `None` for never by this measure. One is
            written at the end and at SIGTERM in any case.
        keep: how many of the last snapshots stay.
        monitor: score of the validation by which the best snapshot is kept too; one that begins
            with `-`, as `-loss`, is better when lower.
        nonfinite: what to do with a step whose loss or gradients are not finite: "skip" it, or
            "roll_back" to the newest snapshot and leave that batch out. Under mixed_float16 one
            whose gradients alone are not is skipped in any case, and the scale of the loss halved.
        max_nonfinite: such steps in a row after which training stops with an error.
        average_decay: the decay of a running average of the weights, such as 0.999, which
            validation then measures and `averaged()` gives; `None` for none.
        jit_compile: whether XLA compiles each replica's forward and backward pass, which needs an
            encoder of fixed length. It is slower on CPUs.
        settings: what else must be the same when training continues, such as the settings of the
            data, as JSON holds it.

    Raises:
        ValueError: if an argument is out of range, the task was made outside of the scope,
            mixed_float16 is to run on several replicas, or XLA with an encoder of dynamic length.

    Example:

    ```python
    task = kbz.Pretraining(kbz.BertEncoder(config))
    trainer = Trainer(task, kbz.adamw(1e-4, 10_000, 1_000), clip_norm=1.0, checkpoint_dir="out")
    trainer.fit(
        lambda step: pretraining_dataset(corpus, 128, 32, start_step=step), total_steps=10_000
    )
    ```
    """

    def __init__(
        self,
        task: SteppedModel,
        optimizer: keras.optimizers.Optimizer,
        strategy: tf.distribute.Strategy | None = None,
        *,
        clip_norm: float | None = None,
        accumulation_steps: int = 1,
        steps_per_call: int = 1,
        checkpoint_dir=None,
        save_steps: int | None = None,
        save_minutes: float | None = 10.0,
        keep: int = 3,
        monitor: str | None = None,
        nonfinite: str = "skip",
        max_nonfinite: int = 10,
        average_decay: float | None = None,
        jit_compile: bool = False,
        settings: Mapping | None = None,
    ):
        counts = {
            "accumulation_steps": accumulation_steps,
            "steps_per_call": steps_per_call,
            "max_nonfinite": max_nonfinite,
            "save_steps": 1 if save_steps is None else save_steps,
        }
        for name, count in counts.items():
            if not isinstance(count, int) or count < 1:
                raise ValueError(f"`{name}` must be a whole number from 1 on. Received: {count}")
        if nonfinite not in ("skip", "roll_back"):
            raise ValueError(f"`nonfinite` is 'skip' or 'roll_back'. Received: {nonfinite!r}")
        if nonfinite == "roll_back" and checkpoint_dir is None:
            raise ValueError("`nonfinite='roll_back'` needs a `checkpoint_dir` to roll back to.")
        if average_decay is not None and not 0 <= average_decay < 1:
            raise ValueError(f"`average_decay` must be in [0, 1). Received: {average_decay}")
        self.strategy = strategy or tf.distribute.get_strategy()
        check_jit(jit_compile, task.input["token_ids"].shape[-1])
        _check_scope(task, self.strategy)
        self.task = task
        optimizer = keras.optimizers.get(optimizer)
        if optimizer.built:
            raise ValueError(
                f"The optimizer {optimizer.name} has been built for other weights or another "
                "training: make a new one."
            )
        with self.strategy.scope():
            if tf.distribute.has_strategy():
                # Keras binds an optimizer to the strategy in whose scope it was made.
                told = keras.optimizers.serialize(optimizer)
                optimizer = keras.optimizers.deserialize(told)
            task.compile(optimizer, clip_norm=clip_norm)
            task.optimizer.build(task.trainable_variables)
        several = self.strategy.num_replicas_in_sync > 1
        if several and hasattr(task.optimizer, "inner_optimizer"):
            raise ValueError(
                "mixed_float16 scales the loss, and the scale is not kept alike on several "
                "replicas: use mixed_bfloat16, or one device."
            )
        self.steps_per_call = steps_per_call
        self.snapshots = None if checkpoint_dir is None else Snapshots(checkpoint_dir, keep)
        self.save_steps, self.save_minutes = save_steps, save_minutes
        self.monitor = monitor
        self.nonfinite, self.max_nonfinite = nonfinite, max_nonfinite
        self.stepper = Stepper(task, self.strategy, accumulation_steps, average_decay, jit_compile)
        told = {"clip_norm": clip_norm, "average_decay": average_decay, "settings": settings or {}}
        self._progress = EpochMeans(self.stepper.names, task.loss_names)
        self._state = TrainingState(task, self.stepper.averages, self._progress, told)

    @property
    def step_losses(self) -> np.ndarray:
        """The loss of every step so far, float32, also of those before a restart."""
        return np.array(self._state.losses, np.float32)

    @property
    def is_chief(self) -> bool:
        """Whether this process is the one that writes."""
        return is_chief(self.strategy)

    @contextlib.contextmanager
    def averaged(self) -> Iterator[SteppedModel]:
        """In a `with` block the task has the averages as its weights.

        Raises:
            ValueError: if there is no `average_decay`.
        """
        if not self.stepper.averages:
            raise ValueError("There are no averages: make the Trainer with `average_decay=0.999`.")
        weights = self.task.trainable_weights
        own = [keras.ops.convert_to_numpy(weight) for weight in weights]
        for weight, average in zip(weights, self.stepper.averages, strict=True):
            weight.assign(keras.ops.convert_to_numpy(average))
        try:
            yield self.task
        finally:
            for weight, value in zip(weights, own, strict=True):
                weight.assign(value)

    def fit(
        self,
        dataset_fn: Callable[[int], tf.data.Dataset],
        total_steps: int,
        steps_per_epoch: int | None = None,
        validation: tf.data.Dataset | Callable[[], Mapping[str, float]] | None = None,
        callbacks: Sequence[keras.callbacks.Callback] = (),
        verbose="auto",
        of_worker: bool = False,
    ) -> keras.callbacks.History:
        """Trains until so many steps are done, those before a restart included.

        Args:
            dataset_fn: takes a number of steps, and gives the batches from there on, as `fit` takes
                ids: global batches, the same on all workers. Same number, same batches.
            total_steps: steps in all.
            steps_per_epoch: steps after which validation runs and callbacks see the end of an
                epoch; by default all steps are one.
            validation: a dataset for the task's own loss and scores, or a function that gives
                scores; they stand as `val_...` in the history.
            callbacks: Keras callbacks. Those that write files run on the chief alone.
            verbose: 0 for silence; by default a progress bar on the chief.
            of_worker: whether `dataset_fn` gives only this worker's rows of each batch, so that no
                worker makes those of others; they are split evenly among its replicas.

        Returns:
            The `History`, of this process's epochs. Each has the means of loss and scores over its
            steps, also of those before a restart.

        Raises:
            ValueError: if the snapshots are of other settings, all damaged, the data end too early,
                or too many steps in a row are not finite.
            SystemExit: with status 143 after SIGTERM, when a snapshot is written.
        """
        for name, value in (("total_steps", total_steps), ("steps_per_epoch", steps_per_epoch)):
            if value is not None and (not isinstance(value, int) or value < 1):
                raise ValueError(f"`{name}` must be a whole number from 1 on. Received: {value}")
        per_epoch = steps_per_epoch or total_steps
        self._progress.clear()
        step = self._restore()
        calls = self._callback_list(callbacks, per_epoch, epochs=-(-total_steps // per_epoch))
        bar = self._progress_bar(total_steps, verbose)

        def batches_from(step):
            return self.stepper.distribute(dataset_fn(step), of_worker)

        iterator = batches_from(step) if step < total_steps else None
        saved_at = time.monotonic()
        nonfinite = NonfiniteSteps(self.nonfinite, self.max_nonfinite, self.task.optimizer)
        epoch_begun = None
        self.task.stop_training = False
        calls.on_train_begin()
        with NotedSignal() as ended:
            while step < total_steps and not self.task.stop_training:
                epoch = step // per_epoch
                if epoch_begun != epoch:
                    calls.on_epoch_begin(epoch)
                    epoch_begun = epoch
                count = self._steps_to_do(step, total_steps, per_epoch)
                calls.on_train_batch_begin(step % per_epoch)
                allowed = [place not in self._state.left_out for place in range(step, step + count)]
                start = time.perf_counter()
                told = self._run_steps(iterator, allowed, step, total_steps)
                seconds = time.perf_counter() - start
                bad = nonfinite.tell(step, told, allowed)
                if bad and self.nonfinite == "roll_back" and self.snapshots.steps:
                    left_out = self._state.left_out | set(bad)
                    step = self._restore()
                    self._state.left_out = left_out
                    iterator = batches_from(step)
                    continue
                step += count
                self._state.losses += told["loss"].tolist()
                self._progress.add(told["sums"])
                logs = self._progress.means()
                calls.on_train_batch_end((step - 1) % per_epoch, logs)
                self._show(bar, step, logs["loss"], float(told["tokens"]) / max(seconds, 1e-9))
                best = False
                if step % per_epoch == 0 or step == total_steps:
                    if validation is not None:
                        logs |= {f"val_{k}": v for k, v in self._validate(validation).items()}
                    calls.on_epoch_end(epoch, logs)
                    self._progress.clear()
                    best = self._note_best(step, logs)
                stopped = ended.received is not None
                if best or stopped or (step < total_steps and self._is_due(step, saved_at)):
                    self._save(step)
                    saved_at = time.monotonic()
                if stopped:
                    calls.on_train_end()
                    raise SystemExit(128 + ended.received)
        if self.snapshots is not None and step not in self.snapshots.steps:
            self._save(step)
        calls.on_train_end()
        return self.task.history

    def _callback_list(self, callbacks, per_epoch, epochs):
        if not self.is_chief:
            callbacks = [each for each in callbacks if not isinstance(each, _WRITING)]
        return keras.callbacks.CallbackList(
            list(callbacks), add_history=True, model=self.task, epochs=epochs, steps=per_epoch,
            verbose=0,
        )  # fmt: skip

    def _progress_bar(self, total_steps, verbose):
        shown = self.is_chief if verbose == "auto" else bool(verbose)
        names = ("loss", "rate", "tokens/s")
        return keras.utils.Progbar(
            total_steps, verbose=int(shown), unit_name="step", stateful_metrics=names
        )

    def _show(self, bar, step, loss, tokens_per_second):
        rate = float(keras.ops.convert_to_numpy(self.task.optimizer.learning_rate))
        values = [("loss", loss), ("rate", rate), ("tokens/s", tokens_per_second)]
        bar.update(step, values, finalize=step >= bar.target)

    def _run_steps(self, iterator, allowed, step, total_steps):
        try:
            return self.stepper.run(iterator, allowed)
        except tf.errors.OutOfRangeError:
            raise ValueError(
                f"The data that begin at step {step} end before step {step + len(allowed)}, and "
                f"{total_steps} are asked for: let `dataset_fn` repeat them."
            ) from None

    def _steps_to_do(self, step, total_steps, per_epoch):
        ends = [total_steps, (step // per_epoch + 1) * per_epoch, step + self.steps_per_call]
        if self.save_steps is not None and self.snapshots is not None:
            ends.append((step // self.save_steps + 1) * self.save_steps)
        return min(ends) - step

    def _is_due(self, step, saved_at):
        if self.save_steps is not None and step % self.save_steps == 0:
            return True
        waited = time.monotonic() - saved_at
        return self.save_minutes is not None and waited >= 60 * self.save_minutes

    def _validate(self, validation):
        with self.averaged() if self.stepper.averages else contextlib.nullcontext():
            if callable(validation):
                return dict(validation())
            return self.stepper.evaluate(validation)

    def _score(self, logs):
        name = self.monitor.removeprefix("-")
        if f"val_{name}" not in logs:
            raise ValueError(
                f"`monitor` is {self.monitor!r}, and the scores of the validation are: "
                f"{', '.join(n.removeprefix('val_') for n in logs if n.startswith('val_'))}"
            )
        value = float(logs[f"val_{name}"])
        return -value if self.monitor.startswith("-") else value

    def _note_best(self, step, logs):
        """Whether the scores are the best so far, which is noted."""
        if self.monitor is None:
            return False
        score = self._score(logs)
        former = self._state.best
        best = np.isfinite(score) and (former is None or score > former["score"])
        if best:
            self._state.best = {"step": step, "score": score}
        return best

    def _save(self, step):
        if self.snapshots is not None and self.is_chief:
            self._state.save(self.snapshots, step)

    def _restore(self):
        return 0 if self.snapshots is None else self._state.restore(self.snapshots)


def _check_scope(task, strategy):
    for variable in task.variables:
        if not strategy.extended.variable_created_in_scope(variable.value):
            raise ValueError(
                f"The weight {variable.path} was made outside of the strategy's scope: make the "
                "task within `with strategy.scope():`."
            )
        return
