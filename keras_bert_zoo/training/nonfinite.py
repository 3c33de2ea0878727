"""Steps that are not applied, since their loss or gradients are not finite."""

import warnings
from collections.abc import Mapping, Sequence

import keras
import numpy as np


class NonfiniteSteps:
    """Tells of such steps, and stops a training in which nothing else comes.

    Where the optimizer scales the loss, as under mixed_float16, and the loss is finite, the scale
    was too large for the gradients: it has been halved, and the batch is not to blame.

    Args:
        remedy: what is done about one, "skip" or "roll_back".
        limit: steps in a row that are not applied, after which it is an error.
        optimizer: the optimizer.
    """

    def __init__(self, remedy: str, limit: int, optimizer: keras.optimizers.Optimizer):
        self.remedy = remedy
        self.limit = limit
        self.optimizer = optimizer
        self._in_a_row = 0

    def tell(self, step: int, told: Mapping, allowed: Sequence[bool]) -> list[int]:
        """Warns of the steps that were not applied.

        Args:
            step: the number of the first.
            told: as `Stepper.run` gives it.
            allowed: for each step whether it was to be applied.

        Returns:
            The numbers of those whose batch is to blame.

        Raises:
            ValueError: if too many in a row were not applied.
        """
        for fine in told["applied"]:
            self._in_a_row = 0 if fine else self._in_a_row + 1
            if self._in_a_row >= self.limit:
                break
        failed = [n for n, fine in enumerate(told["applied"]) if allowed[n] and not fine]
        scaled = hasattr(self.optimizer, "inner_optimizer")
        bad = [n for n in failed if not (scaled and np.isfinite(told["loss"][n]))]
        for number in failed:
            batch = f"Batch {step + number} (from 0) gave"
            if number in bad:
                said = (
                    f"{batch} the loss {told['loss'][number]} or gradients that are not finite: "
                    f"it is left out ({self.remedy})."
                )
            else:
                scale = float(keras.ops.convert_to_numpy(self.optimizer.dynamic_scale))
                said = (
                    f"{batch} gradients beyond the range of float16: the step is skipped and the "
                    f"scale of the loss halved. After step {step + len(allowed)} it is {scale:g}."
                )
            warnings.warn(said, stacklevel=3)
        if failed and self._in_a_row >= self.limit:
            raise ValueError(
                f"{self._in_a_row} steps in a row, up to {step + len(allowed)}, were not finite: "
                "lower the learning rate, or look at these batches."
            )
        return [step + number for number in bad]
