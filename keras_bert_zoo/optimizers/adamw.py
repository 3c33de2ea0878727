"""Adam with decoupled weight decay, as BERT is trained with."""

from collections.abc import Mapping

import keras
import tensorflow as tf

from keras_bert_zoo.optimizers.schedules import WarmupLinear
from keras_bert_zoo.optimizers.spared import (
    check_numbers,
    check_precision,
    checked_multipliers,
    is_spared,
    multipliers_of,
)


@keras.saving.register_keras_serializable(package="keras_bert_zoo")
class AdamW(keras.optimizers.AdamW):
    """Adam with decoupled weight decay that spares biases and normalizations.

    With the running means m and v of the gradient and its square, a step is
    `w -= rate * (m / (sqrt(v) + epsilon) + weight_decay * w)` (arXiv 1711.05101, algorithm 2).
    Variables whose path ends in `bias`, `beta` or `gamma` are not decayed.

    Args:
        learning_rate: the rate, or a schedule of it.
        weight_decay: share of a weight that is taken off at a rate of 1; `None` for none.
        epsilon: what is added to sqrt(v).
        bias_correction: whether m and v are corrected for having started at zero, `m / (1 -
            beta_1^t)` and `v / (1 - beta_2^t)` (arXiv 1412.6980, section 3). The original BERT did
            without, which makes short fine-tunings unstable (arXiv 2006.05987).
        rate_multipliers: factors of the learning rate, and so of the decay too, by the path of a
            weight; 1 for one that is not named. See `keras_bert_zoo.training.layer_rates`.
        **kwargs: as `keras.optimizers.AdamW` takes them, but for `amsgrad`.

    Raises:
        ValueError: if `amsgrad` is asked for, a number is out of range, a weight is of half
            precision, or a path is that of no weight.
    """

    def __init__(
        self,
        learning_rate=1e-4,
        weight_decay=0.01,
        epsilon=1e-6,
        bias_correction=True,
        rate_multipliers: Mapping[str, float] | None = None,
        **kwargs,
    ):
        super().__init__(
            learning_rate=learning_rate, weight_decay=weight_decay, epsilon=epsilon, **kwargs
        )
        if self.amsgrad:
            raise ValueError("`amsgrad=True` is not BERT's AdamW: use keras.optimizers.AdamW.")
        check_numbers(self.beta_1, self.beta_2, self.epsilon, self.weight_decay)
        self.bias_correction = bool(bias_correction)
        self.rate_multipliers = checked_multipliers(rate_multipliers)
        self._spared = set()

    def build(self, var_list):
        if self.built:
            return
        check_precision(var_list)
        self._multipliers = multipliers_of(var_list, self.rate_multipliers)
        self._spared = {self._var_key(v) for v in var_list if is_spared(v)}
        super().build(var_list)

    def _use_weight_decay(self, variable):
        return self._var_key(variable) not in self._spared and super()._use_weight_decay(variable)

    def _apply_weight_decay(self, variables):
        """Does nothing: Keras would know of one rate only, so each step decays its own weight."""

    def update_step(self, gradient, variable, learning_rate):
        index = self._get_variable_index(variable)
        mean, square = self._momentums[index], self._velocities[index]
        dtype = variable.dtype
        learning_rate = tf.cast(learning_rate, dtype) * self._multipliers[index]
        if self.weight_decay is not None and self._use_weight_decay(variable):
            variable.assign_sub(variable * (self.weight_decay * learning_rate))
        step = tf.cast(self.iterations + 1, dtype) if self.bias_correction else None
        beta_1, beta_2 = tf.constant(self.beta_1, dtype), tf.constant(self.beta_2, dtype)
        power_1, power_2 = (0.0, 0.0) if step is None else (beta_1**step, beta_2**step)
        # The one fused kernel there is: it corrects the rate in place of both means, so epsilon
        # has to be scaled to mean the same as in the formula.
        tf.raw_ops.ResourceApplyAdam(
            var=_handle(variable),
            m=_handle(mean),
            v=_handle(square),
            beta1_power=power_1,
            beta2_power=power_2,
            lr=learning_rate,
            beta1=beta_1,
            beta2=beta_2,
            epsilon=self.epsilon * tf.sqrt(1.0 - tf.cast(power_2, dtype)),
            grad=tf.cast(gradient, dtype),
        )

    def get_config(self):
        # Keras wraps a dictionary that is an attribute.
        multipliers = None if self.rate_multipliers is None else dict(self.rate_multipliers)
        return super().get_config() | {
            "bias_correction": self.bias_correction,
            "rate_multipliers": multipliers,
        }


def _handle(variable):
    return (variable.value if isinstance(variable, keras.Variable) else variable).handle


def adamw(
    learning_rate: float,
    total_steps: int,
    warmup_steps: int = 0,
    weight_decay: float = 0.01,
    beta_1: float = 0.9,
    beta_2: float = 0.999,
    epsilon: float = 1e-6,
    bias_correction: bool = True,
    rate_multipliers: Mapping[str, float] | None = None,
) -> AdamW:
    """BERT's optimizer and schedule (arXiv 1810.04805, A.2).

    AdamW over a linear warm-up and a linear decay to zero, as `WarmupLinear` states it; weight
    decay leaves out biases and layer normalizations. Gradient clipping is the task's:
    `task.compile(adamw(...), clip_norm=1.0)`.

    Args:
        learning_rate: the highest rate, reached at the end of the warm-up.
        total_steps: optimizer steps of the whole training.
        warmup_steps: steps of the warm-up.
        weight_decay: decoupled weight decay.
        beta_1, beta_2, epsilon: as in Adam.
        bias_correction: false for the original BERT's Adam without bias correction.
        rate_multipliers: as in `AdamW`.

    Raises:
        ValueError: as `WarmupLinear` does.
    """
    return AdamW(
        learning_rate=WarmupLinear(learning_rate, total_steps, warmup_steps),
        weight_decay=weight_decay,
        beta_1=beta_1,
        beta_2=beta_2,
        epsilon=epsilon,
        bias_correction=bias_correction,
        rate_multipliers=rate_multipliers,
    )
