"""Which weights an optimizer treats apart."""

from collections.abc import Iterable

import keras

# The last part of a variable's path that says it is a bias or belongs to a normalization.
_NOT_DECAYED = ("bias", "beta", "gamma")


def is_spared(variable: keras.Variable) -> bool:
    """Whether a weight is a bias or belongs to a normalization, and so is not decayed."""
    return variable.path.split("/")[-1] in _NOT_DECAYED


def check_precision(variables: Iterable[keras.Variable]) -> None:
    """Raises ValueError if a weight is of half precision, in which no means can be kept."""
    for variable in variables:
        if variable.dtype not in ("float32", "float64"):
            raise ValueError(
                f"The weight {variable.path} is {variable.dtype}, in which Adam's means cannot "
                "be kept: use a mixed policy, like mixed_bfloat16, whose weights are float32."
            )
