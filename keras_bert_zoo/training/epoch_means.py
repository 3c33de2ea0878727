"""Means of loss and scores over the steps of an epoch."""

from collections.abc import Mapping, Sequence


class EpochMeans:
    """Sums and weights of the terms of a loss, and of scores, since the epoch began.

    Attributes:
        sums: by name, a list of the sum and of the weight.

    Args:
        names: the names of all.
        loss_names: those of the loss's terms, which `loss` is the sum of.
    """

    def __init__(self, names: Sequence[str], loss_names: Sequence[str]):
        self.names = names
        self.loss_names = loss_names
        self.clear()

    def clear(self) -> None:
        self.sums = {name: [0.0, 0.0] for name in self.names}

    def add(self, sums: Mapping[str, Sequence]) -> None:
        """Adds the sums and the weights of some steps."""
        for name, pair in sums.items():
            self.sums[name] = [a + float(b) for a, b in zip(self.sums[name], pair, strict=True)]

    def means(self) -> dict[str, float]:
        """By name; 0 where there is no weight. `loss` comes first."""
        means = {n: value / weight if weight else 0.0 for n, (value, weight) in self.sums.items()}
        return {"loss": sum(means[name] for name in self.loss_names)} | means
