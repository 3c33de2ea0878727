"""One word to a strategy, on machines and clusters that are played by variables."""

import json
import os
import socket
import subprocess
import sys

import pytest
import tensorflow as tf
from conftest import ROOT

from keras_bert_zoo.training.strategies import cluster, make_strategy


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    for name in list(os.environ):
        if name.startswith(("SLURM_", "TF_CONFIG", "TPU_NAME")):
            monkeypatch.delenv(name)


def config(workers=("a:1", "b:1"), kind="worker", index=0):
    return json.dumps({"cluster": {kind: list(workers)}, "task": {"type": kind, "index": index}})


def test_one_device_where_there_is_nothing_else(monkeypatch):
    for name in ("auto", "one"):
        assert make_strategy(name).num_replicas_in_sync == 1
        assert make_strategy(name) is tf.distribute.get_strategy()
    monkeypatch.setenv("TF_CONFIG", config(["a:1"]))
    assert make_strategy("auto") is tf.distribute.get_strategy()


def test_what_is_not_there_is_told(monkeypatch):
    with pytest.raises(ValueError, match="auto, one, mirrored.*Received: 'horovod'"):
        make_strategy("horovod")
    with pytest.raises(ValueError, match="TPU_NAME"):
        make_strategy("tpu")
    with pytest.raises(ValueError, match="TF_CONFIG.*srun"):
        make_strategy("multi_worker")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "must be JSON"),
        ("[]", "must be JSON"),
        ('{"cluster": {"worker": ["a:1"]}}', "must be JSON"),
        (config(index=2), "worker 2, and it names 2"),
        (config(index=-1), "worker -1"),
        (config(kind="ps"), "Received: ps"),
    ],
)
def test_a_malformed_cluster_is_refused(monkeypatch, text, message):
    monkeypatch.setenv("TF_CONFIG", text)
    for name in ("auto", "multi_worker"):
        with pytest.raises(ValueError, match=message):
            make_strategy(name)


def test_the_cluster_of_a_slurm_step(monkeypatch):
    step = {
        "SLURM_PROCID": "2",
        "SLURM_STEP_NUM_TASKS": "4",
        "SLURM_STEP_NODELIST": "n[08-09],gpu1",
        "SLURM_STEP_TASKS_PER_NODE": "1(x2),2",
    }
    for name, value in step.items():
        monkeypatch.setenv(name, value)
    workers = cluster()
    hosts = workers.cluster_spec().as_dict()["worker"]
    assert sorted(hosts) == ["gpu1:8888", "gpu1:8889", "n08:8888", "n09:8888"]
    assert (workers.task_type, workers.task_id) == ("worker", 2)
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "1")
    assert cluster() is None


PROGRAM = """
import os, sys
import tensorflow as tf
from keras_bert_zoo.training.strategies import make_strategy

if sys.argv[1] == "mirrored":
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = make_strategy(sys.argv[1])
with strategy.scope():
    number = tf.Variable(1.0)

def replica():
    context = tf.distribute.get_replica_context()
    return context.all_reduce("sum", number + tf.cast(context.replica_id_in_sync_group, tf.float32))

total = strategy.experimental_local_results(strategy.run(tf.function(replica)))[0]
print("told", strategy.num_replicas_in_sync, float(total), strategy.extended.should_checkpoint)
"""


def start(name, **variables):
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, name],
        env=os.environ | {"PYTHONPATH": str(ROOT)} | variables,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def told(process):
    said, complaints = process.communicate(timeout=120)
    assert process.returncode == 0, complaints
    return said.splitlines()[-1]


def test_two_logical_processors():
    assert told(start("mirrored")) == "told 2 3.0 True"


def test_two_workers_of_which_one_writes():
    with socket.socket() as first, socket.socket() as second:
        sockets = (first, second)
        for each in sockets:
            each.bind(("localhost", 0))
        hosts = [f"localhost:{each.getsockname()[1]}" for each in sockets]
    processes = [start("auto", TF_CONFIG=config(hosts, index=index)) for index in (0, 1)]
    assert [told(process) for process in processes] == ["told 2 3.0 True", "told 2 3.0 False"]
