"""The strategy that fits a machine, or a cluster, from one word."""

import json
import os

import tensorflow as tf

NAMES = ("auto", "one", "mirrored", "multi_worker", "tpu")


def make_strategy(name: str = "auto") -> tf.distribute.Strategy:
    """Makes a strategy of `tf.distribute`.

    - `one`: one device.
    - `mirrored`: all GPUs of this machine, or without any its logical CPUs.
    - `multi_worker`: this worker of several, as `TF_CONFIG` or the variables of a Slurm step tell.
      It has to be made before TensorFlow does anything else. On a Slurm node with GPUs each task is
      to see its own, as with `srun --gpus-per-task`.
    - `tpu`: the TPU that `TPU_NAME` names. No TPU was tried.
    - `auto`: the first of `tpu` if `TPU_NAME` is set; `multi_worker` if `TF_CONFIG` or Slurm names
      several workers; `mirrored` if there are several GPUs; `one`.

    Args:
        name: one of these words.

    Raises:
        ValueError: if there is no such word, `TF_CONFIG` is malformed, or what is asked for is not
            there.
    """
    if name not in NAMES:
        raise ValueError(f"A strategy is one of {', '.join(NAMES)}. Received: {name!r}")
    if name == "auto":
        name = _fitting()
    if name == "one":
        return tf.distribute.get_strategy()
    if name == "mirrored":
        devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
        return tf.distribute.MirroredStrategy([device.name for device in devices])
    return _tpu() if name == "tpu" else _multi_worker()


def cluster() -> tf.distribute.cluster_resolver.ClusterResolver | None:
    """The workers that `TF_CONFIG` or a Slurm step names; `None` if neither is there.

    Raises:
        ValueError: if `TF_CONFIG` is malformed, or of other roles than workers and a chief.
    """
    if os.environ.get("TF_CONFIG"):
        _check_config(os.environ["TF_CONFIG"])
        return tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if int(os.environ.get("SLURM_STEP_NUM_TASKS", 1)) < 2 or "SLURM_PROCID" not in os.environ:
        return None
    tasks = int(os.environ["SLURM_STEP_NUM_TASKS"])
    # GPUs are left to Slurm. The resolver divides by the number of a task's, so it is told of one.
    return tf.distribute.cluster_resolver.SlurmClusterResolver(
        gpus_per_node=tasks, gpus_per_task=1, auto_set_gpu=False
    )


def _fitting():
    if os.environ.get("TPU_NAME"):
        return "tpu"
    workers = cluster()
    if workers is not None and _worker_count(workers) > 1:
        return "multi_worker"
    return "mirrored" if len(tf.config.list_physical_devices("GPU")) > 1 else "one"


def _worker_count(workers):
    return sum(len(hosts) for hosts in workers.cluster_spec().as_dict().values())


def _multi_worker():
    workers = cluster()
    if workers is None:
        raise ValueError(
            "`multi_worker` needs TF_CONFIG, or a step of Slurm with several tasks (`srun`), and "
            "there is neither. On this machine alone, examples/launch_local_workers.py sets it."
        )
    workers.cluster_spec()  # Slurm's resolver knows its own place only after it.
    try:
        return tf.distribute.MultiWorkerMirroredStrategy(cluster_resolver=workers)
    except RuntimeError as error:
        raise ValueError(
            "The workers have to be connected before TensorFlow does anything else: make the "
            f"strategy first. ({error})"
        ) from error


def _tpu():
    if not os.environ.get("TPU_NAME"):
        raise ValueError("`tpu` needs TPU_NAME, the name of the TPU, or 'local'. It is not set.")
    resolver = tf.distribute.cluster_resolver.TPUClusterResolver(os.environ["TPU_NAME"])
    tf.config.experimental_connect_to_cluster(resolver)
    tf.tpu.experimental.initialize_tpu_system(resolver)
    return tf.distribute.TPUStrategy(resolver)


def _check_config(text):
    example = '{"cluster": {"worker": ["host:port", ...]}, "task": {"type": "worker", "index": 0}}'
    try:
        config = json.loads(text)
        hosts, task = dict(config["cluster"]), config["task"]
        place, kind = int(task["index"]), task["type"]
        count = len(hosts.get(kind, ()))
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"TF_CONFIG must be JSON such as {example}. Received: {text!r:.300} ({error!r})"
        ) from None
    if set(hosts) - {"worker", "chief"}:
        raise ValueError(
            f"TF_CONFIG names workers, and a chief if need be. Received: {', '.join(hosts)}"
        )
    if not 0 <= place < count:
        raise ValueError(
            f"TF_CONFIG says that this is {kind} {place}, and it names {count} of that kind."
        )
