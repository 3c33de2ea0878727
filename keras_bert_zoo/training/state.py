"""What a training has come to: the content of its snapshots, from which it goes on."""

from collections.abc import Mapping, Sequence

import keras
import numpy as np

from keras_bert_zoo.tasks.step import SteppedModel
from keras_bert_zoo.training.epoch_means import EpochMeans
from keras_bert_zoo.training.fingerprint import differences, fingerprint
from keras_bert_zoo.training.snapshots import Snapshots


class TrainingState:
    """Weights, optimizer and running averages of a training, and what it has noted.

    Args:
        task: the compiled task, whose optimizer is built.
        averages: the running averages of its weights.
        progress: the sums of the epoch.
        settings: what else must be the same when the training goes on, as JSON holds it.

    Attributes:
        losses: the loss of every step done.
        left_out: steps whose batches are left out.
        best: step and score of the best validation, `None` before the first.
    """

    def __init__(
        self,
        task: SteppedModel,
        averages: Sequence[keras.Variable],
        progress: EpochMeans,
        settings: Mapping | None = None,
    ):
        self.task = task
        self.averages = averages
        self.progress = progress
        self.fingerprint = fingerprint(task, settings)
        self.losses: list[float] = []
        self.left_out: set[int] = set()
        self.best: dict | None = None

    def save(self, snapshots: Snapshots, step: int) -> None:
        """Writes a snapshot of all this after so many steps."""
        arrays = {
            name: keras.ops.convert_to_numpy(variable)
            for name, variable in self._variables().items()
        }
        arrays["step_losses"] = np.array(self.losses, np.float32)
        noted = {
            "fingerprint": self.fingerprint,
            "progress": self.progress.sums,
            "left_out": sorted(self.left_out),
            "best": self.best,
        }
        snapshots.save(step, arrays, noted, self.best["step"] if self.best else None)

    def restore(self, snapshots: Snapshots) -> int:
        """Sets all this to the newest snapshot that is whole.

        Returns:
            Its step, 0 if there is none.

        Raises:
            ValueError: if it is of other settings, or all are damaged.
        """
        snapshot = snapshots.newest()
        if snapshot is None:
            return 0
        changed = differences(snapshot.state["fingerprint"], self.fingerprint)
        variables = self._variables()
        shapes = {name: tuple(variable.shape) for name, variable in variables.items()}
        found = {name: array.shape for name, array in snapshot.arrays.items()}
        found.pop("step_losses", None)
        if changed or shapes != found:
            told = "; ".join(changed) or "their weights are of other shapes"
            raise ValueError(
                f"The snapshots in {snapshots.folder} are of a training with other settings: "
                f"{told}. Train with the former ones, or into another folder."
            )
        for name, variable in variables.items():
            variable.assign(snapshot.arrays[name])
        self.losses = snapshot.arrays["step_losses"].tolist()
        self.left_out = set(snapshot.state["left_out"])
        self.best = snapshot.state["best"]
        sums = snapshot.state["progress"]
        self.progress.sums = {name: list(pair) for name, pair in sums.items()}
        return snapshot.step

    def _variables(self):
        groups = {
            "task": self.task.variables,
            "optimizer": self.task.optimizer.variables,
            "average": self.averages,
        }
        # By number, as Keras counts names up in a process.
        return {
            f"{group}/{number}": variable
            for group, variables in groups.items()
            for number, variable in enumerate(variables)
        }
