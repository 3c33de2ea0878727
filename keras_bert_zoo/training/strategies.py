"""The strategy that fits a machine, or a cluster, from one word."""

import itertools
import json
import os
import re
from collections.abc import Mapping

import tensorflow as tf

NAMES = ("auto", "one", "mirrored", "multi_worker", "tpu")
_NODE = r"(?:[^,\[\]\s]|\[\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*\])+"
_FIRST_PORT = 8888


def make_strategy(
    name: str = "auto", environment: Mapping[str, str] = os.environ
) -> tf.distribute.Strategy:
    """Makes a strategy of `tf.distribute`.

    - `one`: one device.
    - `mirrored`: all GPUs of this machine, or without any its logical CPUs. Where there is only one
      device it is one replica, and trains as `one` does.
    - `multi_worker`: this worker of several, as `TF_CONFIG` or the variables of a Slurm step tell.
      It has to be made before TensorFlow does anything else. On a Slurm node with GPUs each task is
      to see its own, as with `srun --gpus-per-task`.
    - `tpu`: the TPU that `TPU_NAME` names. No TPU was tried: TPUStrategy is untested.
    - `auto`: the first of `tpu` if `TPU_NAME` is set; `multi_worker` if `TF_CONFIG` or Slurm names
      several workers; `mirrored` if there are several GPUs; `one`.

    Args:
        name: one of these words.
        environment: the variables that tell of a cluster or a TPU.

    Raises:
        ValueError: if there is no such word, `TF_CONFIG` or Slurm's variables are malformed, what
            is asked for is not there, or TensorFlow has run before its workers are connected.
    """
    if name not in NAMES:
        raise ValueError(f"A strategy is one of {', '.join(NAMES)}. Received: {name!r}")
    if name == "auto":
        name = _fitting(environment)
    if name == "one":
        return tf.distribute.get_strategy()
    if name == "mirrored":
        devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
        return tf.distribute.MirroredStrategy([device.name for device in devices])
    return _tpu(environment) if name == "tpu" else _multi_worker(environment)


def cluster(
    environment: Mapping[str, str] = os.environ,
) -> tf.distribute.cluster_resolver.ClusterResolver | None:
    """The workers that `TF_CONFIG` or a Slurm step names; `None` if neither is there.

    Raises:
        ValueError: if `TF_CONFIG` is malformed, or of other roles than workers and a chief; or if
            Slurm's variables are malformed, or its ranks are not in the order of the nodes.
    """
    if environment.get("TF_CONFIG"):
        return _configured(environment["TF_CONFIG"])
    return _slurm(environment)


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Whether this process is the one that writes: of several workers the first."""
    return bool(getattr(strategy.extended, "should_checkpoint", True))


def worker_count_and_index(strategy: tf.distribute.Strategy) -> tuple[int, int]:
    """How many processes train together, and which of them this is, from 0 for the chief."""
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return 1, 0
    workers = strategy.cluster_resolver
    chiefs = len(workers.cluster_spec().as_dict().get("chief", ()))
    index = int(workers.task_id or 0) + (chiefs if workers.task_type == "worker" else 0)
    return max(_worker_count(workers), 1), index


def best_precision() -> str:
    """The dtype policy that fits this machine's accelerators: mixed_bfloat16 where all have it.

    These are TPUs, and GPUs of compute capability 8.0 on. CPUs get float32: some compute bfloat16
    faster too, but results should not depend on which CPU it is.
    """
    if tf.config.list_logical_devices("TPU"):
        return "mixed_bfloat16"
    gpus = tf.config.list_physical_devices("GPU")
    found = [
        tf.config.experimental.get_device_details(gpu).get("compute_capability", (0, 0))
        for gpu in gpus
    ]
    return "mixed_bfloat16" if gpus and min(found) >= (8, 0) else "float32"


class _Workers(tf.distribute.cluster_resolver.SimpleClusterResolver):
    """Workers that count their GPUs when TensorFlow has found them, as those of TF_CONFIG do.

    TensorFlow's own for Slurm sorts the nodes by text, n10 before n9, so that ranks get each
    other's addresses, and has to be told how many GPUs there are.
    """

    def num_accelerators(self, task_type=None, task_id=None, config_proto=None):
        return {"GPU": len(tf.config.list_logical_devices("GPU"))}


def _workers(hosts, kind, index):
    spec = tf.train.ClusterSpec(hosts)
    return _Workers(spec, task_type=kind, task_id=index, rpc_layer="grpc")


def _fitting(environment):
    if environment.get("TPU_NAME"):
        return "tpu"
    workers = cluster(environment)
    if workers is not None and _worker_count(workers) > 1:
        return "multi_worker"
    return "mirrored" if len(tf.config.list_physical_devices("GPU")) > 1 else "one"


def _worker_count(workers):
    return sum(len(hosts) for hosts in workers.cluster_spec().as_dict().values())


def _multi_worker(environment):
    workers = cluster(environment)
    if workers is None:
        raise ValueError(
            "`multi_worker` needs TF_CONFIG, or a step of Slurm with several tasks (`srun`), and "
            "there is neither. On this machine alone, examples/launch_local_workers.py sets it."
        )
    try:
        return tf.distribute.MultiWorkerMirroredStrategy(cluster_resolver=workers)
    except RuntimeError as error:
        raise ValueError(
            "The workers have to be connected before TensorFlow does anything else: make the "
            f"strategy first. ({error})"
        ) from error


def _tpu(environment):
    name = environment.get("TPU_NAME")
    if not name:
        raise ValueError("`tpu` needs TPU_NAME, the name of the TPU, or 'local'. It is not set.")
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(name)
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
    except (tf.errors.OpError, RuntimeError, ValueError, OSError) as error:
        raise ValueError(
            f"TPU_NAME is {name!r}, and no TPU answers to that: {' '.join(str(error).split()):.200}"
            ". Correct it, or unset it to train without one."
        ) from error
    return tf.distribute.TPUStrategy(resolver)


def _configured(text):
    """The workers that TF_CONFIG names."""
    example = '{"cluster": {"worker": ["host:port", ...]}, "task": {"type": "worker", "index": 0}}'
    try:
        config = json.loads(text)
        hosts, task = dict(config["cluster"]), config["task"]
        place, kind = int(task["index"]), task["type"]
        for addresses in hosts.values():
            if not isinstance(addresses, list) or not all(isinstance(a, str) for a in addresses):
                raise TypeError(f"{addresses!r} is no list of host:port")
        count = len(hosts.get(kind, ()))
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"TF_CONFIG must be JSON such as {example}. Received: {text!r:.300} ({error!r})"
        ) from None
    if set(hosts) - {"worker", "chief"} or kind not in ("worker", "chief"):
        raise ValueError(
            "TF_CONFIG names workers, and a chief if need be; the chief evaluates, and there are "
            f"no parameter servers. Received: {', '.join(dict.fromkeys([*hosts, kind]))}"
        )
    if len(hosts.get("chief", ())) > 1:
        raise ValueError(f"TF_CONFIG names one chief at most. Received: {len(hosts['chief'])}")
    if not 0 <= place < count:
        raise ValueError(
            f"TF_CONFIG says that this is {kind} {place}, and it names {count} of that kind."
        )
    return _workers(hosts, kind, place)


def _slurm(environment):
    """The workers of a Slurm step; `None` outside of one, or if it has one task."""
    wanted = ("PROCID", "STEP_NUM_TASKS", "STEP_NODELIST", "STEP_TASKS_PER_NODE")
    # A batch script has a rank too, but no step: it is not one of several workers.
    values = {name: environment.get(f"SLURM_{name}") for name in wanted}
    if not all(values.values()) or values["STEP_NUM_TASKS"] == "1":
        return None
    try:
        rank, count = int(values["PROCID"]), int(values["STEP_NUM_TASKS"])
        nodes = expand_nodes(values["STEP_NODELIST"])
        tasks = _expand_counts(values["STEP_TASKS_PER_NODE"])
        job = int(environment.get("SLURM_JOB_ID", 0))
        # Slurm counts the nodes too. Without it, the ranks are taken to be in their order.
        node = int(environment["SLURM_NODEID"]) if "SLURM_NODEID" in environment else None
        fits = len(nodes) == len(tasks) and sum(tasks) == count and 0 <= rank < count
    except ValueError:
        fits = False
    if not fits:
        said = ", ".join(f"SLURM_{name}={value!r}" for name, value in values.items())
        raise ValueError(
            "The variables of a Slurm step must agree, such as SLURM_PROCID=0, "
            "SLURM_STEP_NUM_TASKS=3, SLURM_STEP_NODELIST=n[1-2], SLURM_STEP_TASKS_PER_NODE=2,1. "
            f"Received: {said}. Set TF_CONFIG instead, or start the workers with `srun`."
        )
    # Jobs that share a node should not share ports, and these lie below those that systems lend.
    port = _FIRST_PORT + 32 * (job % 500)
    places = [(n, local) for n, several in enumerate(tasks) for local in range(several)]
    if node is not None and places[rank][0] != node:
        raise ValueError(
            f"Rank {rank} of the Slurm step should be on node {places[rank][0]} of "
            f"{values['STEP_NODELIST']}, and it is on node {node}. Start the workers with `srun "
            "--distribution=block`."
        )
    return _workers(
        {"worker": [f"{nodes[n]}:{port + local}" for n, local in places]}, "worker", rank
    )


def expand_nodes(text: str) -> list[str]:
    """The names that a list of Slurm's means, such as `node[01-03,07],gpu5`, in its order.

    Raises:
        ValueError: if it is no such list.
    """
    if not re.fullmatch(f"{_NODE}(,{_NODE})*", text):
        raise ValueError(f"Slurm writes nodes like node[01-03,07],gpu5. Received: {text!r}")
    names = []
    for node in re.findall(_NODE, text):
        # What stands in brackets is at the odd places.
        pieces = re.split(r"\[(.*?)\]", node)
        choices = [_expand_ranges(p) if n % 2 else [p] for n, p in enumerate(pieces)]
        names += ["".join(chosen) for chosen in itertools.product(*choices)]
    return names


def _expand_ranges(text):
    numbers = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        for number in range(int(first), int(last or first) + 1):
            numbers.append(f"{number:0{len(first)}d}")
    return numbers


def _expand_counts(text):
    """The tasks of each node, of such as `2(x3),1`."""
    counts = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d+)(?:\(x(\d+)\))?", part)
        if not match:
            raise ValueError(text)
        counts += [int(match[1])] * int(match[2] or 1)
    return counts
