"""LAMB: Adam's direction, with a length for each weight of its own, for very large batches."""

from collections.abc import Mapping

import keras
import tensorflow as tf
from keras import ops

from keras_bert_zoo.optimizers.spared import (
    check_numbers,
    check_precision,
    checked_multipliers,
    is_spared,
    multipliers_of,
)


@keras.saving.register_keras_serializable(package="keras_bert_zoo")
class Lamb(keras.optimizers.Optimizer):
    """LAMB (arXiv 1904.00962, algorithm 2), with weight decay inside of the trust ratio.

    With the running means m and v of the gradient and its square, corrected for having started at
    zero, a step of a weight w is

        u = m / (sqrt(v) + epsilon) + weight_decay * w
        w -= rate * (|w| / |u|) * u

    where the ratio is 1 if either norm is 0. Biases and normalizations are not decayed, nor is what
    `exclude_from_weight_decay` names, and their ratio is 1: in google-research/albert's LAMB, too,
    what is left out of the decay is left out of the ratio unless told otherwise.
    (`keras.optimizers.Lamb` decays outside of the ratio.)

    Args:
        learning_rate: the rate, or a schedule.
        weight_decay: the decay, 0 or None for none.
        beta_1, beta_2, epsilon: as in Adam.
        bias_correction: whether m and v are corrected; albert's LAMB does without.
        rate_multipliers: as in `AdamW`.
        **kwargs: as `keras.optimizers.Optimizer` takes them.

    Raises:
        ValueError: if a number is out of range, a weight is of half precision, or a path of
            `rate_multipliers` is that of no weight.
    """

    def __init__(
        self,
        learning_rate=1e-3,
        weight_decay: float | None = 0.01,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-6,
        bias_correction: bool = True,
        rate_multipliers: Mapping[str, float] | None = None,
        name: str = "lamb",
        **kwargs,
    ):
        super().__init__(learning_rate=learning_rate, name=name, **kwargs)
        check_numbers(beta_1, beta_2, epsilon, weight_decay)
        # Keras would decay by an attribute `weight_decay` itself, outside of the ratio.
        self.decay_rate = weight_decay or 0.0
        self.beta_1, self.beta_2, self.epsilon = beta_1, beta_2, epsilon
        self.bias_correction = bool(bias_correction)
        self.rate_multipliers = checked_multipliers(rate_multipliers)

    def build(self, var_list):
        if self.built:
            return
        check_precision(var_list)
        self._multipliers = multipliers_of(var_list, self.rate_multipliers)
        super().build(var_list)
        self._spared = {self._var_key(v) for v in var_list if is_spared(v)}
        self._means, self._squares = self.add_optimizer_variables(var_list, ["mean", "square"])

    def _use_weight_decay(self, variable):
        return self._var_key(variable) not in self._spared and super()._use_weight_decay(variable)

    def update_step(self, gradient, variable, learning_rate):
        index = self._get_variable_index(variable)
        mean, square = self._means[index], self._squares[index]
        dtype = variable.dtype
        rate = ops.cast(learning_rate, dtype)
        # The gradient of a lookup comes as rows, and a row can be there more than once.
        gradient = tf.convert_to_tensor(tf.cast(gradient, dtype))
        self.assign(mean, self.beta_1 * mean + (1.0 - self.beta_1) * gradient)
        self.assign(square, self.beta_2 * square + (1.0 - self.beta_2) * ops.square(gradient))
        corrected = [ops.convert_to_tensor(mean), ops.convert_to_tensor(square)]
        if self.bias_correction:
            step = ops.cast(self.iterations + 1, dtype)
            for place, beta in enumerate((self.beta_1, self.beta_2)):
                power = ops.power(ops.cast(beta, dtype), step)
                corrected[place] = corrected[place] / (1.0 - power)
        update = corrected[0] / (ops.sqrt(corrected[1]) + self.epsilon)
        if self._use_weight_decay(variable):
            update = update + self.decay_rate * ops.convert_to_tensor(variable)
            norms = [
                ops.sqrt(ops.sum(ops.square(value)))
                for value in (ops.convert_to_tensor(variable), update)
            ]
            both = (norms[0] > 0) & (norms[1] > 0)
            # The inner choice keeps a division by zero out of the graph.
            ratio = ops.where(both, norms[0] / ops.where(both, norms[1], 1.0), 1.0)
            update = ratio * update
        self.assign_sub(variable, rate * self._multipliers[index] * update)

    def get_config(self):
        # Keras wraps a dictionary that is an attribute.
        multipliers = None if self.rate_multipliers is None else dict(self.rate_multipliers)
        return super().get_config() | {
            "weight_decay": self.decay_rate,
            "beta_1": self.beta_1,
            "beta_2": self.beta_2,
            "epsilon": self.epsilon,
            "bias_correction": self.bias_correction,
            "rate_multipliers": multipliers,
        }
