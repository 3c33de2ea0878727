"""Steps of a training as one graph: on every replica, in parts, several in a call."""

import keras
import tensorflow as tf

from keras_bert_zoo.tasks.inputs import steady
from keras_bert_zoo.tasks.step import SteppedModel


class Stepper:
    """Runs the steps of a task under a strategy.

    A step is the gradient of the global batch, in parts if it is accumulated, then one application
    by the optimizer. One whose loss or gradients are not finite is not applied. An optimizer that
    scales the loss then halves the scale, unless the loss itself is not finite.

    Args:
        task: the task, compiled.
        strategy: the strategy in whose scope the task was made.
        accumulation_steps: parts that each replica's rows pass through the model in.
        average_decay: how much of the running average of the weights stays in a step; `None` for
            no average.
        jit_compile: whether XLA compiles each replica's forward and backward pass. What the
            replicas do together stays outside, as XLA cannot hold another device's variables.

    Attributes:
        averages: the averages of the trainable weights, in their order; [] without.
    """

    def __init__(
        self,
        task: SteppedModel,
        strategy: tf.distribute.Strategy,
        accumulation_steps: int = 1,
        average_decay: float | None = None,
        jit_compile: bool = False,
    ):
        self.task = task
        self.strategy = strategy
        self.accumulation_steps = accumulation_steps
        self.average_decay = average_decay
        self.jit_compile = jit_compile
        self.averages = []
        if average_decay is not None:
            with strategy.scope():
                self.averages = [
                    tf.Variable(
                        tf.convert_to_tensor(weight),
                        trainable=False,
                        aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
                    )
                    for weight in task.trainable_weights
                ]
        self.names = (*task.loss_names, *task.score_names)
        self._run = tf.function(self._steps, autograph=False)

    def distribute(self, dataset: tf.data.Dataset, of_worker: bool = False):
        """An iterator of the parts of a dataset's batches, each row on one replica.

        Args:
            dataset: batches of the global batch's rows, the same on all workers.
            of_worker: whether they are only this worker's rows of it instead.
        """
        dataset = steady(dataset)
        if self.strategy.num_replicas_in_sync == 1:
            return iter(dataset)

        def of_pipeline(context):
            local = context.num_replicas_in_sync // context.num_input_pipelines
            first = 0 if of_worker else context.input_pipeline_id * local
            total = local if of_worker else context.num_replicas_in_sync

            def parts(*batch):
                def cut(tensor, replica):
                    rows = tf.shape(tensor)[0]
                    return tensor[replica * rows // total : (replica + 1) * rows // total]

                pieces = [
                    tf.data.Dataset.from_tensors(
                        tf.nest.map_structure(lambda t, r=r: cut(t, r), batch)
                    )
                    for r in range(first, first + local)
                ]
                joined = pieces[0]
                for piece in pieces[1:]:
                    joined = joined.concatenate(piece)
                return joined

            return dataset.flat_map(parts).prefetch(local)

        return iter(self.strategy.distribute_datasets_from_function(of_pipeline))

    def run(self, iterator, allowed) -> dict:
        """Runs as many steps as `allowed` has entries.

        Args:
            iterator: as `distribute` gives it.
            allowed: bool (K,), false for a step whose gradients are not to be applied.

        Returns:
            A dict of numpy arrays: `loss`, float32 (K,); `applied`, bool (K,); `tokens`, int64, the
            real tokens of all; and by name the sum and the weight of each term and score over the
            steps that were applied, float64.
        """
        return tf.nest.map_structure(
            lambda tensor: tensor.numpy(), self._run(iterator, tf.constant(allowed, tf.bool))
        )

    def evaluate(self, dataset: tf.data.Dataset) -> dict[str, float]:
        """The means of the terms and scores over a dataset, and `loss`, their terms' sum."""
        totals = {name: [0.0, 0.0] for name in self.names}
        for batch in self.distribute(dataset):
            for name, pair in self._evaluate(batch).items():
                for place, value in enumerate(pair):
                    totals[name][place] += float(value)
        means = {
            name: value / weight if weight else 0.0 for name, (value, weight) in totals.items()
        }
        return {"loss": sum(means[name] for name in self.task.loss_names)} | means

    @tf.function(autograph=False, reduce_retracing=True)
    def _evaluate(self, batch):
        return self._first(self.strategy.run(self._scores_in_replica, args=(batch,)))

    def _scores_in_replica(self, batch):
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(batch)
        outputs = self.task(x, training=False)
        return self._reduced(
            {
                **self.task.loss_terms(x, y, outputs, sample_weight),
                **self.task.score_terms(x, y, outputs, sample_weight),
            }
        )

    def _gradients_in_replica(self, batch):
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(batch)
        if self.accumulation_steps > 1:
            loss, gradients, sums = self.task.accumulate_gradients(
                batch, self.accumulation_steps, self.jit_compile
            )
        else:
            loss, gradients, terms, outputs = self.task.compute_gradients(
                x, y, sample_weight, self.jit_compile
            )
            sums = {**terms, **self.task.score_terms(x, y, outputs, sample_weight)}
        self._takes_part = [gradient is not None for gradient in gradients]
        gradients = [gradient for gradient in gradients if gradient is not None]
        total = tf.add_n([tf.cast(tf.reduce_sum(g), tf.float32) for g in gradients])
        finite = tf.math.is_finite(loss) & tf.math.is_finite(total)
        tokens = [x["padding_mask"]] if isinstance(x, dict) and "padding_mask" in x else []
        tokens = sum((tf.reduce_sum(tf.cast(t, tf.int64)) for t in tokens), tf.zeros([], tf.int64))
        return loss, gradients, finite, self._reduced(sums), self._sum([tokens])[0]

    def _apply_in_replica(self, gradients):
        gradients = iter(gradients)
        self.task.apply_gradients([next(gradients) if part else None for part in self._takes_part])

    def _average_in_replica(self):
        for average, weight in zip(self.averages, self.task.trainable_weights, strict=True):
            value = tf.convert_to_tensor(weight)
            average.assign(self.average_decay * average + (1.0 - self.average_decay) * value)

    def _step(self, iterator, allowed):
        batch = next(iterator)
        if not isinstance(batch, tuple):
            batch = (batch,)
        found = self.strategy.run(self._gradients_in_replica, args=(batch,))
        loss, gradients, finite, sums, tokens = found
        loss, finite, sums, tokens = self._first((loss, finite, sums, tokens))
        applied = seen = finite & allowed
        if hasattr(self.task.optimizer, "inner_optimizer"):
            # It scales the loss. Of gradients that are not finite it halves the scale, no more.
            seen = tf.math.is_finite(loss) & allowed

        def apply():
            self.strategy.run(self._apply_in_replica, args=(gradients,))
            return True

        def average():
            self.strategy.run(self._average_in_replica)
            return True

        # Outside of the replicas, since in them the optimizer cannot meet the others in a branch.
        tf.cond(seen, apply, lambda: False)
        if self.averages:
            tf.cond(applied, average, lambda: False)
        return loss, applied, sums, tokens

    def _steps(self, iterator, allowed):
        steps = tf.shape(allowed)[0]
        losses = tf.TensorArray(tf.float32, steps)
        flags = tf.TensorArray(tf.bool, steps)
        zero = tf.zeros([], tf.float64)
        start = {name: [zero, zero] for name in self.names}

        def body(number, losses, flags, sums, tokens):
            loss, applied, found, more = self._step(iterator, allowed[number])
            sums = {
                name: [
                    old + tf.where(applied, tf.cast(new, tf.float64), 0.0)
                    for old, new in zip(pair, found[name], strict=True)
                ]
                for name, pair in sums.items()
            }
            losses, flags = losses.write(number, loss), flags.write(number, applied)
            return number + 1, losses, flags, sums, tokens + more

        _, losses, flags, sums, tokens = tf.while_loop(
            lambda number, *_: number < steps,
            body,
            [0, losses, flags, start, tf.zeros([], tf.int64)],
            parallel_iterations=1,
        )
        return {"loss": losses.stack(), "applied": flags.stack(), "tokens": tokens, "sums": sums}

    def _reduced(self, sums):
        """Sums and weights over all replicas."""
        flat = [tf.cast(value, tf.float32) for name in self.names for value in sums[name]]
        flat = iter(self._sum(flat))
        return {name: [next(flat), next(flat)] for name in self.names}

    def _sum(self, tensors):
        if self.strategy.num_replicas_in_sync == 1:
            return tensors
        context = tf.distribute.get_replica_context()
        return context.all_reduce(tf.distribute.ReduceOp.SUM, tensors)

    def _first(self, values):
        """The first replica's values, where all have the same."""
        if self.strategy.num_replicas_in_sync == 1:
            return values
        return tf.nest.map_structure(
            lambda value: self.strategy.experimental_local_results(value)[0], values
        )
