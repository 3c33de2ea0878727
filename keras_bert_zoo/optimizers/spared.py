"""What AdamW and LAMB share: their checks, and which weights they treat apart."""

import math
from collections.abc import Iterable, Mapping

import keras

# The last part of a variable's path that says it is a bias or belongs to a normalization.
_NOT_DECAYED = ("bias", "beta", "gamma")


def is_spared(variable: keras.Variable) -> bool:
    """Whether a weight is a bias or belongs to a normalization, and so is not decayed."""
    return variable.path.split("/")[-1] in _NOT_DECAYED


def check_numbers(beta_1: float, beta_2: float, epsilon: float, weight_decay: float | None) -> None:
    """Raises ValueError if one of Adam's numbers is out of range."""
    for name, beta in (("beta_1", beta_1), ("beta_2", beta_2)):
        if not 0 <= beta < 1:
            raise ValueError(f"`{name}` must be in [0, 1). Received: {beta}")
    if not 0 < epsilon < math.inf:
        raise ValueError(f"`epsilon` must be positive. Received: {epsilon}")
    if weight_decay is not None and not 0 <= weight_decay < math.inf:
        raise ValueError(f"`weight_decay` must not be negative. Received: {weight_decay}")


def check_precision(variables: Iterable[keras.Variable]) -> None:
    """Raises ValueError if a weight is of half precision, in which no means can be kept."""
    for variable in variables:
        if variable.dtype not in ("float32", "float64"):
            raise ValueError(
                f"The weight {variable.path} is {variable.dtype}, in which Adam's means cannot "
                "be kept: use a mixed policy, like mixed_bfloat16, whose weights are float32."
            )


def checked_multipliers(rate_multipliers: Mapping[str, float] | None) -> dict[str, float] | None:
    """Factors of the learning rate by path; ValueError if one is negative or not finite."""
    if rate_multipliers is None:
        return None
    for path, factor in rate_multipliers.items():
        if not 0 <= factor < math.inf:
            raise ValueError(
                "`rate_multipliers` are numbers from 0 on, by paths of weights. Received: "
                f"{path!r}: {factor!r}"
            )
    return {path: float(factor) for path, factor in rate_multipliers.items()}


def multipliers_of(
    variables: Iterable[keras.Variable], rate_multipliers: Mapping[str, float] | None
) -> list[float]:
    """The factor of each weight's learning rate, 1 where there is none.

    Raises:
        ValueError: if a path is that of no weight.
    """
    paths = [variable.path for variable in variables]
    factors = rate_multipliers or {}
    unknown = sorted(set(factors) - set(paths))
    if unknown:
        raise ValueError(
            f"`rate_multipliers` names what is no weight: {', '.join(unknown[:5])}. The weights "
            f"are: {', '.join(paths[:5])}, ..."
        )
    return [factors.get(path, 1.0) for path in paths]
