"""One global batch, and the same losses, however its rows are spread over devices and parts."""

import numpy as np
import pytest
import trained
from trainings import finish, launch, start

FLAGS = ("--dropout=0", "--optimizer=sgd", "--rate=0.1", "--steps=20", "--batch_size=32")


def losses(folder):
    with np.load(folder / "weights.npz") as file:
        return file["losses"]


def here(folder, *flags):
    folder.mkdir()
    return trained.run(trained.parse([str(folder), *FLAGS, *flags])).step_losses


@pytest.fixture(scope="module", params=["pretraining", "classifier"])
def one(request, tmp_path_factory):
    """A task's name, and the losses of one replica that gets all 32 rows at once.

    The classifier's batches have 32, 26, 32 and 1 rows in turn, of unequal weight: of one row one
    replica gets none.
    """
    task = f"--task={request.param}"
    found = here(tmp_path_factory.mktemp("one") / "one", task)
    assert found.shape == (20,) and np.ptp(found) > 1e-2
    return task, found


def test_rows_in_four_parts(tmp_path, one):
    task, expected = one
    found = here(tmp_path / "parts", task, "--accumulate=4")
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    "accumulate", [1, pytest.param(2, marks=pytest.mark.slow)], ids=["whole", "in_parts"]
)
def test_rows_on_two_replicas(tmp_path, one, accumulate):
    task, expected = one
    folder = tmp_path / "replicas"
    finish(start(folder, task, *FLAGS, "--replicas=2", f"--accumulate={accumulate}"))
    np.testing.assert_allclose(losses(folder), expected, rtol=0, atol=1e-5)


def test_rows_on_two_workers(tmp_path, one):
    task, expected = one
    finish(launch(tmp_path / "workers", task, *FLAGS))
    np.testing.assert_allclose(losses(tmp_path / "workers"), expected, rtol=0, atol=1e-5)
