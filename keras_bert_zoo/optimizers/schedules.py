"""Learning-rate schedules."""

import math

import keras
from keras import ops


class _Warmup(keras.optimizers.schedules.LearningRateSchedule):
    """A linear warm-up from 0 to the peak over W steps; a subclass says what follows."""

    def __init__(self, peak: float, warmup_steps: int = 0, total_steps: int | None = None):
        super().__init__()
        for name, steps in (("total_steps", total_steps), ("warmup_steps", warmup_steps)):
            if steps is not None and steps != int(steps):
                raise ValueError(f"`{name}` must be a whole number. Received: {steps}")
        if total_steps is not None and total_steps < 1:
            raise ValueError(f"`total_steps` must be at least 1. Received: {total_steps}")
        if not 0 <= warmup_steps <= (math.inf if total_steps is None else total_steps):
            raise ValueError(
                "`warmup_steps` must lie between 0 and `total_steps`. Received: "
                f"warmup_steps={warmup_steps}, total_steps={total_steps}"
            )
        if not 0 <= peak < math.inf:
            raise ValueError(f"`peak` must not be negative, nor infinite. Received: {peak}")
        self.peak = peak
        self.total_steps = total_steps
        self.warmup_steps = warmup_steps

    def after_warmup(self, left):
        """The share of the peak where a share `left` of the steps after the warm-up is to come."""
        raise ValueError(f"{type(self).__name__} does not say what follows the warm-up.")

    def __call__(self, step):
        step = ops.cast(step, "float32")
        rising = step / max(self.warmup_steps, 1)
        if self.total_steps is None:
            left = ops.ones_like(step)
        else:
            left = (self.total_steps - step) / max(self.total_steps - self.warmup_steps, 1)
        falling = self.after_warmup(ops.clip(left, 0.0, 1.0))
        share = ops.where(step < self.warmup_steps, rising, falling)
        return self.peak * ops.clip(share, 0.0, 1.0)

    def get_config(self):
        config = {"peak": self.peak, "warmup_steps": self.warmup_steps}
        return config if self.total_steps is None else config | {"total_steps": self.total_steps}


@keras.saving.register_keras_serializable(package="keras_bert_zoo")
class WarmupLinear(_Warmup):
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
        super().__init__(peak, warmup_steps, total_steps)

    def after_warmup(self, left):
        return left


@keras.saving.register_keras_serializable(package="keras_bert_zoo")
class WarmupPolynomial(_Warmup):
    """Linear warm-up, then polynomial decay to an end.

    With the end e and u = (T - t) / (T - W), the rate after the warm-up is e + (p - e) u^power, and
    e from step T on; `power=1` is linear.

    Args:
        peak, total_steps, warmup_steps: as in `WarmupLinear`.
        power: the exponent, above 0.
        end: the rate at the end, from 0 to the peak.

    Raises:
        ValueError: as `WarmupLinear`, or if `power` or `end` is out of range.
    """

    def __init__(
        self,
        peak: float,
        total_steps: int,
        warmup_steps: int = 0,
        power: float = 1.0,
        end: float = 0.0,
    ):
        super().__init__(peak, warmup_steps, total_steps)
        if not 0 < power < math.inf:
            raise ValueError(f"`power` must be above 0. Received: {power}")
        self.power = power
        self.end = _checked_end(end, peak)

    def after_warmup(self, left):
        end = self.end / self.peak if self.peak else 0.0
        return end + (1.0 - end) * left**self.power

    def get_config(self):
        return super().get_config() | {"power": self.power, "end": self.end}


@keras.saving.register_keras_serializable(package="keras_bert_zoo")
class WarmupCosine(_Warmup):
    """Linear warm-up, then half a cosine down to an end (arXiv 1608.03983, without restarts).

    With the end e and u = (T - t) / (T - W), the rate after the warm-up is
    e + (p - e) (1 - cos(pi u)) / 2, and e from step T on.

    Args:
        peak, total_steps, warmup_steps: as in `WarmupLinear`.
        end: the rate at the end, from 0 to the peak.

    Raises:
        ValueError: as `WarmupLinear`, or if `end` is out of range.
    """

    def __init__(self, peak: float, total_steps: int, warmup_steps: int = 0, end: float = 0.0):
        super().__init__(peak, warmup_steps, total_steps)
        self.end = _checked_end(end, peak)

    def after_warmup(self, left):
        end = self.end / self.peak if self.peak else 0.0
        return end + (1.0 - end) * (1.0 - ops.cos(math.pi * left)) / 2.0

    def get_config(self):
        return super().get_config() | {"end": self.end}


@keras.saving.register_keras_serializable(package="keras_bert_zoo")
class WarmupConstant(_Warmup):
    """Linear warm-up, then the peak for ever.

    Args:
        peak: highest learning rate.
        warmup_steps: steps of the warm-up.

    Raises:
        ValueError: if `warmup_steps` or the peak is negative.
    """

    def __init__(self, peak: float, warmup_steps: int = 0):
        super().__init__(peak, warmup_steps)

    def after_warmup(self, left):
        return left


SCHEDULES = {
    "linear": WarmupLinear,
    "polynomial": WarmupPolynomial,
    "cosine": WarmupCosine,
    "constant": WarmupConstant,
}


def make_schedule(
    name: str, peak: float, total_steps: int, warmup_steps: int = 0, **more
) -> keras.optimizers.schedules.LearningRateSchedule:
    """Makes a schedule by its name: "linear", "polynomial", "cosine" or "constant".

    Args:
        name: the name.
        peak, total_steps, warmup_steps: as in `WarmupLinear`; a constant one takes no notice of
            the total.
        **more: what the schedule takes besides, such as `power`.

    Raises:
        ValueError: if there is no such schedule, or as it does.
    """
    if name not in SCHEDULES:
        raise ValueError(f"A schedule is one of {', '.join(SCHEDULES)}. Received: {name!r}")
    if name == "constant":
        return WarmupConstant(peak, warmup_steps, **more)
    return SCHEDULES[name](peak, total_steps, warmup_steps, **more)


def _checked_end(end, peak):
    if not 0 <= end <= peak:
        raise ValueError(f"`end` must lie between 0 and the peak, {peak}. Received: {end}")
    return end
