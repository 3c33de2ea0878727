"""The training step that `fit` and every other loop runs, on one device or under a strategy."""

import math
from collections.abc import Mapping

import keras
import tensorflow as tf

from keras_bert_zoo.encoders.transformer import check_jit


class SteppedModel(keras.Model):
    """A functional Keras model whose loss is a sum of means over the global batch.

    A subclass gives each term of its loss as a sum and a weight, `loss_terms`, and each score
    likewise, `score_terms`. Both are divided only after the weights of all replicas are added, so
    that the mean is over the real examples or tokens of the global batch, however unequally they
    are spread over replicas.

    Args:
        inputs, outputs: the functional graph.
        loss_names: names of the terms that `loss_terms` gives.
        score_names: names of the terms that `score_terms` gives.
        name: name of the model.
    """

    def __init__(self, inputs, outputs, loss_names=("loss",), score_names=(), name=None):
        # No `**kwargs`: Keras would take a misspelt argument without a word.
        super().__init__(inputs=inputs, outputs=outputs, name=name)
        self.loss_names = tuple(loss_names)
        self.score_names = tuple(score_names)
        self.clip_norm = None
        self.loss_function = None
        self.trackers = {
            name: keras.metrics.Mean(name=name) for name in (*loss_names, *score_names)
        }

    def loss_terms(self, x, y, outputs, sample_weight) -> Mapping[str, tuple]:
        """Gives the terms of the loss on one replica's part of a batch.

        Returns:
            By name, a pair of float32 scalars: the weighted sum, and the sum of the weights.
        """
        raise ValueError(f"{type(self).__name__} does not say what its loss is.")

    def score_terms(self, x, y, outputs, sample_weight) -> Mapping[str, tuple]:
        """Gives the scores on one replica's part of a batch, in the form of `loss_terms`."""
        return {}

    def compute_gradients(self, x, y, sample_weight=None, jit_compile: bool = False):
        """Computes the loss of the global batch and its gradients; within a replica, if any.

        Args:
            x, y, sample_weight: this replica's part of a batch, as `loss_terms` takes it.
            jit_compile: whether XLA compiles the passes through the model, forward and backward.

        Returns:
            `(loss, gradients, terms, outputs)`. The loss is the global batch's. The gradients, in
            the order of `trainable_weights`, are the global batch's too, dense, and scaled where
            the optimizer scales the loss; `None` where a weight had no part. Terms and outputs
            are this replica's.
        """
        totals = None
        if jit_compile:
            # Before the compiled part, since XLA cannot add over the replicas.
            totals = _all_reduce(
                tf.distribute.get_replica_context(), self._weights(x, y, sample_weight)
            )
        loss, gradients, terms, outputs = self._local_gradients(
            x, y, sample_weight, totals, jit_compile=jit_compile
        )
        loss, gradients = self._all_reduced(loss, gradients)
        return loss, gradients, terms, outputs

    def accumulate_gradients(self, batch: tuple, parts: int, jit_compile: bool = False):
        """Does as `compute_gradients` for a batch whose rows pass through the model in parts.

        The means are over the rows of all parts, however unequal they are, so the result is that of
        the whole batch at once, in the memory of one part.

        Args:
            batch: this replica's part of a batch: x, or x and y, or x, y and `sample_weight`.
            parts: how many parts there are, fewer if there are fewer rows.
            jit_compile: as `compute_gradients` takes it.

        Returns:
            `(loss, gradients, sums)`: the first two as `compute_gradients` gives them; of each
            term and score its sum and its weight, float32, of this replica, by name.
        """
        rows = tf.shape(tf.nest.flatten(batch)[0])[0]
        size = tf.maximum(-(-rows // parts), 1)

        def part(number):
            cut = tf.nest.map_structure(lambda t: t[number * size : (number + 1) * size], batch)
            return keras.utils.unpack_x_y_sample_weight(cut)

        def add_weights(number, weights):
            more = self._weights(*part(number))
            return number + 1, [w + weight for w, weight in zip(weights, more, strict=True)]

        count = tf.maximum(-(-rows // size), 1)
        zeros = [tf.zeros([], tf.float32) for _ in self.loss_names]
        _, totals = tf.while_loop(lambda n, _: n < count, add_weights, [0, zeros])
        totals = _all_reduce(tf.distribute.get_replica_context(), totals)
        names = (*self.loss_names, *self.score_names)

        def add(number, loss, gradients, sums):
            x, y, sample_weight = part(number)
            more, found, terms, outputs = self._local_gradients(
                x, y, sample_weight, totals, count, jit_compile
            )
            terms = {**terms, **self.score_terms(x, y, outputs, sample_weight)}
            found = [None if g is None else tf.convert_to_tensor(g) for g in found]
            takes_part[:] = [g is not None for g in found]
            gradients = [
                g if new is None else g + new for g, new in zip(gradients, found, strict=True)
            ]
            sums = {
                name: [old + new for old, new in zip(sums[name], terms[name], strict=True)]
                for name in names
            }
            return number + 1, loss + more, gradients, sums

        takes_part = []
        start = [
            0,
            tf.zeros([], tf.float32),
            [tf.zeros(w.shape, w.dtype) for w in self.trainable_weights],
            {name: [tf.zeros([], tf.float32)] * 2 for name in names},
        ]
        _, loss, gradients, sums = tf.while_loop(
            lambda n, *_: n < count, add, start, parallel_iterations=1
        )
        gradients = [g if there else None for g, there in zip(gradients, takes_part, strict=True)]
        return *self._all_reduced(loss, gradients), sums

    def _weights(self, x, y, sample_weight):
        """The weights of the loss's terms on this replica."""
        # Nothing of the outputs is in the weights, so the graph is pruned of the model.
        terms = self.loss_terms(x, y, self(x, training=False), sample_weight)
        return [weight for _, weight in terms.values()]

    def _local_gradients(self, x, y, sample_weight, totals=None, parts=1, jit_compile=False):
        """This replica's part of the loss and of the gradients; `totals` are the global weights."""
        if jit_compile:
            # A function for this replica alone: it holds the replica's own variables.
            run = tf.function(self._local_gradients, autograph=False, jit_compile=True)
            return run(x, y, sample_weight, totals, parts)
        context = tf.distribute.get_replica_context()
        with tf.GradientTape() as tape:
            outputs = self(x, training=True)
            terms = self.loss_terms(x, y, outputs, sample_weight)
            if totals is None:
                totals = _all_reduce(context, [weight for _, weight in terms.values()])
            loss = tf.add_n(
                [
                    tf.math.divide_no_nan(value, total)
                    for (value, _), total in zip(terms.values(), totals, strict=True)
                ]
            )
            if self.losses:
                loss += tf.add_n(self.losses) / tf.cast(
                    context.num_replicas_in_sync * parts, tf.float32
                )
            scaled = self.optimizer.scale_loss(loss)
        return loss, tape.gradient(scaled, self.trainable_weights), terms, outputs

    def _all_reduced(self, loss, gradients):
        context = tf.distribute.get_replica_context()
        # The gradient of a table lists a row as often as it was looked up; the norm needs sums.
        dense = [tf.convert_to_tensor(g) for g in gradients if g is not None]
        dense = iter(_all_reduce(context, dense))
        gradients = [None if g is None else next(dense) for g in gradients]
        return _all_reduce(context, [loss])[0], gradients

    def apply_gradients(self, gradients):
        """Clips gradients to `clip_norm` by their global norm and applies them.

        Args:
            gradients: as `compute_gradients` gives them.
        """
        replicas = tf.distribute.get_replica_context().num_replicas_in_sync
        if self.clip_norm is not None:
            # Gradients of a scaled loss are clipped at the norm scaled likewise.
            limit = self.optimizer.scale_loss(tf.constant(self.clip_norm, tf.float32))
            squares = [tf.nn.l2_loss(g) for g in gradients if g is not None]
            # Heads are float32 under any policy, so dtypes may differ. An l2_loss is half a square.
            norm = tf.sqrt(2.0 * tf.add_n([tf.cast(square, tf.float32) for square in squares]))
            factor = limit / tf.maximum(norm, limit)
            gradients = [None if g is None else g * tf.cast(factor, g.dtype) for g in gradients]
        weights = self.trainable_weights
        if not self.optimizer.built:
            with tf.init_scope():
                self.optimizer.build(weights)
        # Keras adds over the replicas once more. A weight without part in the loss, such as the
        # pooler's in a masked language model, is left out, as Keras would warn of it.
        self.optimizer.apply_gradients(
            [(g / replicas, w) for g, w in zip(gradients, weights, strict=True) if g is not None]
        )

    def train_step(self, data):
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        _, gradients, terms, outputs = self.compute_gradients(x, y, sample_weight)
        self.apply_gradients(gradients)
        return self._track(x, y, sample_weight, terms, outputs)

    def test_step(self, data):
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        outputs = self(x, training=False)
        terms = self.loss_terms(x, y, outputs, sample_weight)
        return self._track(x, y, sample_weight, terms, outputs)

    def _track(self, x, y, sample_weight, terms, outputs):
        scores = self.score_terms(x, y, outputs, sample_weight)
        for name, (value, weight) in (*terms.items(), *scores.items()):
            mean = tf.math.divide_no_nan(value, weight)
            self.trackers[name].update_state(mean, sample_weight=weight)
        return self.compute_metrics(x, y, outputs, sample_weight)

    @property
    def metrics(self):
        # The loss tracker may be one of `trackers`: each is listed once, the loss first.
        return list(dict.fromkeys(super().metrics))

    def compile(
        self,
        optimizer="adam",
        clip_norm: float | None = None,
        loss=None,
        metrics=None,
        weighted_metrics=None,
        run_eagerly: bool = False,
        steps_per_execution: int = 1,
        jit_compile: bool = False,
        auto_scale_loss: bool = True,
    ):
        """Sets the task up for training; loss and metrics have the task's defaults.

        Args:
            optimizer: an optimizer or its name; `keras_bert_zoo.adamw` makes BERT's.
            clip_norm: global norm that the gradients of the global batch are clipped to; BERT
                uses 1.0. `None` for no clipping.
            loss: another loss than the task's, as Keras takes it, where the task has one term. It
                is given the logits, so for classes pass an object made with `from_logits=True`.
            metrics, weighted_metrics, run_eagerly, steps_per_execution, auto_scale_loss: as in
                `keras.Model.compile`. Metrics come beside the task's own.
            jit_compile: whether to use XLA, which needs an encoder of fixed length.

        Raises:
            ValueError: if the optimizer clips by itself, `clip_norm` is not positive, a loss is
                given to a task of several terms, or XLA to an encoder of dynamic length.
        """
        check_jit(jit_compile, self.input["token_ids"].shape[-1])
        optimizer = keras.optimizers.get(optimizer)
        for name in ("clipnorm", "global_clipnorm", "clipvalue"):
            # A LossScaleOptimizer has another within.
            value = getattr(getattr(optimizer, "inner_optimizer", optimizer), name, None)
            if value is not None:
                raise ValueError(
                    f"The optimizer clips by itself (`{name}={value}`), which "
                    "under a strategy happens on each replica alone: use `clip_norm` of "
                    "`compile()` instead."
                )
        if optimizer is None:
            raise ValueError("`optimizer` must be an optimizer or its name. Received: None")
        if clip_norm is not None and not 0 < clip_norm < math.inf:
            raise ValueError(
                f"`clip_norm` must be positive and finite, or None. Received: {clip_norm}"
            )
        if loss is not None and len(self.loss_names) > 1:
            raise ValueError(
                f"The loss of {type(self).__name__} has the terms {', '.join(self.loss_names)} "
                f"and cannot be replaced by one. Received: loss={loss!r}"
            )
        super().compile(
            optimizer=optimizer,
            loss=None,
            metrics=metrics,
            weighted_metrics=weighted_metrics,
            run_eagerly=run_eagerly,
            steps_per_execution=steps_per_execution,
            jit_compile=jit_compile,
            auto_scale_loss=auto_scale_loss,
        )
        self.clip_norm = clip_norm
        self.loss_function = None if loss is None else keras.losses.get(loss)
        terms = [self.trackers[name] for name in self.loss_names]
        self._loss_tracker = terms[0] if self.loss_names == ("loss",) else LossSum(terms)

    def get_compile_config(self):
        config = super().get_compile_config()
        if config:
            config.pop("loss_weights", None)
            config["loss"] = keras.saving.serialize_keras_object(self.loss_function)
            config["clip_norm"] = self.clip_norm
        return config

    def compile_from_config(self, config):
        self.compile(**keras.saving.deserialize_keras_object(config))
        self.optimizer.build(self.trainable_variables)


class LossSum(keras.metrics.Metric):
    """The sum of the means of a loss's terms, each over its own weight."""

    def __init__(self, terms, name="loss"):
        super().__init__(name=name)
        self.terms = list(terms)

    def update_state(self, *args, **kwargs):
        """Does nothing: the terms are updated where they arise."""

    def result(self):
        return sum(term.result() for term in self.terms)


def same_class(logits, classes):
    """Returns float32 1 where the largest logit is that of the class, else 0."""
    return tf.cast(tf.argmax(logits, axis=-1, output_type=classes.dtype) == classes, tf.float32)


def weighed(values, weights):
    """Returns the weighted sum of values and the sum of the weights, as a term is given."""
    return tf.reduce_sum(values * weights), tf.reduce_sum(weights)


def _all_reduce(context, tensors):
    if context.num_replicas_in_sync == 1 or not tensors:
        return tensors
    return context.all_reduce(tf.distribute.ReduceOp.SUM, tensors)
