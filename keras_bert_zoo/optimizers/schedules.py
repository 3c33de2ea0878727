"""Learning-rate schedules."""

import math

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="keras_bert_zoo")
class WarmupLinear(keras.optimizers.schedules.LearningRateSchedule):
    """Linear warm-up from 0 to the peak, then linear decay to 0 at the last step.

    With peak p, W warm-up steps and T steps in all, the rate of step t (counted from 0) is

        p * t / W                   for t < W
        p * (T - t) / (T - W)       for W <= t < T
        0                           for t >= T

    so it is continuous: the peak is reached once, at step W, and never exceeded.
    (google-research/bert decays from step 0 on and drops at the end of the warm-up.)

    Args:
        peak: highest learning rate.
        total_steps: steps T of the whole training.
        warmup_steps: steps W of the warm-up, from 0 to `total_steps`.

    Raises:
        ValueError: if `total_steps` is below 1, `warmup_steps` is not in [0, total_steps], or the
            peak is negative.
    """

    def __init__(self, peak: float, total_steps: int, warmup_steps: int = 0):
        super().__init__()
        for name, steps in (("total_steps", total_steps), ("warmup_steps", warmup_steps)):
            if steps != int(steps):
                raise ValueError(f"`{name}` must be a whole number. Received: {steps}")
        if total_steps < 1:
            raise ValueError(f"`total_steps` must be at least 1. Received: {total_steps}")
        if not 0 <= warmup_steps <= total_steps:
            raise ValueError(
                "`warmup_steps` must lie between 0 and `total_steps`. Received: "
                f"warmup_steps={warmup_steps}, total_steps={total_steps}"
            )
        if not 0 <= peak < math.inf:
            raise ValueError(f"`peak` must not be negative, nor infinite. Received: {peak}")
        self.peak = peak
        self.total_steps = total_steps
        self.warmup_steps = warmup_steps

    def __call__(self, step):
        step = ops.cast(step, "float32")
        rising = step / max(self.warmup_steps, 1)
        falling = (self.total_steps - step) / max(self.total_steps - self.warmup_steps, 1)
        share = ops.where(step < self.warmup_steps, rising, falling)
        return self.peak * ops.clip(share, 0.0, 1.0)

    def get_config(self):
        return {
            "peak": self.peak,
            "total_steps": self.total_steps,
            "warmup_steps": self.warmup_steps,
        }
