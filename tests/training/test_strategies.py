"""One word to a strategy, on machines and clusters that are played by variables."""

import json
import os
import socket
import subprocess
import sys

import pytest
import tensorflow as tf
from conftest import ROOT

from keras_bert_zoo.training.strategies import (
    best_precision,
    cluster,
    expand_nodes,
    is_chief,
    make_strategy,
    worker_count_and_index,
)


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
    assert is_chief(make_strategy("one"))
    assert worker_count_and_index(make_strategy("one")) == (1, 0)


def test_the_variables_of_another_environment():
    with pytest.raises(ValueError, match="worker 2, and it names 2"):
        make_strategy("auto", {"TF_CONFIG": config(index=2)})
    assert make_strategy("auto", {}).num_replicas_in_sync == 1
    workers = cluster({"TF_CONFIG": config(index=1)})
    assert workers.cluster_spec().as_dict() == {"worker": ["a:1", "b:1"]}
    assert (workers.task_type, workers.task_id) == ("worker", 1)


@pytest.mark.parametrize(
    ("tpus", "gpus", "precision"),
    [
        ([], [], "float32"),
        (["TPU:0"], [], "mixed_bfloat16"),
        ([], [(9, 0), (8, 0)], "mixed_bfloat16"),
        ([], [(8, 6), (7, 5)], "float32"),
        ([], [None], "float32"),
    ],
)
def test_the_precision_that_all_accelerators_have(monkeypatch, tpus, gpus, precision):
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind: tpus)
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: gpus)
    details = lambda gpu: {"compute_capability": gpu} if gpu else {}  # noqa: E731
    monkeypatch.setattr(tf.config.experimental, "get_device_details", details)
    assert best_precision() == precision


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
        (config(kind="ps"), "no parameter servers. Received: ps"),
        (config(kind="chief"), "one chief at most. Received: 2"),
        (
            config().replace('"type": "worker"', '"type": "evaluator"'),
            "Received: worker, evaluator",
        ),
        (config().replace('["a:1", "b:1"]', '"a:1"'), "no list of host:port"),
    ],
)
def test_a_malformed_cluster_is_refused(monkeypatch, text, message):
    monkeypatch.setenv("TF_CONFIG", text)
    for name in ("auto", "multi_worker"):
        with pytest.raises(ValueError, match=message):
            make_strategy(name)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("node[01-03,07],gpu5", ["node01", "node02", "node03", "node07", "gpu5"]),
        ("n[8-10]", ["n8", "n9", "n10"]),
        ("r[1-2]n[3-4]-x", ["r1n3-x", "r1n4-x", "r2n3-x", "r2n4-x"]),
        ("a-1.b", ["a-1.b"]),
    ],
)
def test_the_nodes_of_slurm(text, names):
    assert expand_nodes(text) == names


@pytest.mark.parametrize("text", ["", "a,", "a[1", "a[x]", "a[1-]", "a b", "a]1["])
def test_what_is_no_list_of_nodes(text):
    with pytest.raises(ValueError, match="Slurm writes nodes"):
        expand_nodes(text)


def step(rank, nodes="n[08-10],gpu1", tasks="1(x3),2", count="5", **others):
    names = ("PROCID", "STEP_NODELIST", "STEP_TASKS_PER_NODE", "STEP_NUM_TASKS")
    values = dict(zip(names, (str(rank), nodes, tasks, count), strict=True)) | others
    return {f"SLURM_{name}": value for name, value in values.items()}


def test_the_cluster_of_a_slurm_step():
    """Ranks go through the nodes in the order of Slurm's list, not of their names."""
    hosts = ["n08:8888", "n09:8888", "n10:8888", "gpu1:8888", "gpu1:8889"]
    for rank in range(5):
        workers = cluster(step(rank))
        assert workers.cluster_spec().as_dict() == {"worker": hosts}
        assert (workers.task_type, workers.task_id) == ("worker", rank)
    workers = cluster(step(2, "n[8-10]", "1(x3)", "3"))
    assert workers.cluster_spec().task_address("worker", 2) == "n10:8888"
    workers = cluster(step(4, JOB_ID="1003", NODEID="3"))
    assert workers.cluster_spec().task_address("worker", 4) == "gpu1:8985"


def test_no_step_of_several_tasks():
    assert cluster(step(0, "n1", "1", "1")) is None
    assert cluster({"SLURM_PROCID": "0", "SLURM_NTASKS": "4"}) is None  # A batch script.
    assert cluster(step(0) | {"TF_CONFIG": config()}).cluster_spec().num_tasks("worker") == 2


@pytest.mark.parametrize(
    "wrong",
    [
        {"rank": 5}, {"rank": -1}, {"rank": "x"}, {"count": "4"}, {"count": "many"},
        {"nodes": "n[08-10]"}, {"nodes": "n[08-"}, {"tasks": "1(y3),2"},
    ],
)  # fmt: skip
def test_a_malformed_step_is_refused(wrong):
    with pytest.raises(ValueError, match="must agree.*Received: SLURM_PROCID=.*srun"):
        make_strategy("auto", step(**({"rank": 0} | wrong)))


def test_ranks_that_go_round_the_nodes_are_refused():
    with pytest.raises(ValueError, match="on node 0 of n1,n2, and it is on node 1.*=block"):
        cluster(step(1, "n1,n2", "2(x2)", "4", NODEID="1"))


PROGRAM = """
import os, sys
import tensorflow as tf
from keras_bert_zoo.training.strategies import is_chief, make_strategy, worker_count_and_index

cpu = tf.config.list_physical_devices("CPU")[0]
count = int(sys.argv[2])
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * count)
strategy = make_strategy(sys.argv[1])
with strategy.scope():
    number = tf.Variable(1.0)

def replica():
    context = tf.distribute.get_replica_context()
    return context.all_reduce("sum", number + tf.cast(context.replica_id_in_sync_group, tf.float32))

total = strategy.experimental_local_results(strategy.run(tf.function(replica)))[0]
print("told", strategy.num_replicas_in_sync, float(total), is_chief(strategy),
      *worker_count_and_index(strategy), strategy.extended.worker_devices[0])
"""


def start(name, devices=1, program=PROGRAM, **variables):
    return subprocess.Popen(
        [sys.executable, "-c", program, name, str(devices)],
        # On processors alone, whatever the machine has.
        env=os.environ | {"PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "-1"} | variables,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def told(process):
    said, complaints = process.communicate(timeout=120)
    assert process.returncode == 0, complaints
    return said.splitlines()[-1]


def free_hosts():
    with socket.socket() as first, socket.socket() as second:
        sockets = (first, second)
        for each in sockets:
            each.bind(("localhost", 0))
        return [f"localhost:{each.getsockname()[1]}" for each in sockets]


def test_two_logical_processors():
    assert told(start("mirrored", devices=2)).startswith("told 2 3.0 True 1 0 ")


def test_one_logical_processor_is_one_replica():
    assert told(start("mirrored")).startswith("told 1 1.0 True 1 0 ")


def test_two_workers_of_which_one_writes():
    hosts = free_hosts()
    processes = [start("auto", TF_CONFIG=config(hosts, index=index)) for index in (0, 1)]
    assert [told(process) for process in processes] == [
        "told 2 3.0 True 2 0 /job:worker/replica:0/task:0/device:CPU:0",
        "told 2 3.0 False 2 1 /job:worker/replica:0/task:1/device:CPU:0",
    ]


def test_a_chief_and_a_worker():
    chief, worker = ([host] for host in free_hosts())
    processes = [
        start("auto", TF_CONFIG=json.dumps({
            "cluster": {"chief": chief, "worker": worker}, "task": {"type": kind, "index": 0},
        }))
        for kind in ("chief", "worker")
    ]  # fmt: skip
    said = [told(process).rpartition(" ")[0] for process in processes]
    assert said == ["told 2 3.0 True 2 0", "told 2 3.0 False 2 1"]


def test_two_tasks_of_slurm():
    # The number of the job keeps the ports off those of other runs of this test.
    job = str(os.getpid())
    steps = [step(rank, "localhost", "2", "2", NODEID="0", JOB_ID=job) for rank in (0, 1)]
    processes = [start("auto", **variables) for variables in steps]
    said = [told(process) for process in processes]
    assert said == [
        "told 2 3.0 True 2 0 /job:worker/replica:0/task:0/device:CPU:0",
        "told 2 3.0 False 2 1 /job:worker/replica:0/task:1/device:CPU:0",
    ]


def refusal(process):
    _, complaints = process.communicate(timeout=120)
    assert process.returncode == 1
    return complaints.splitlines()[-1]


def test_a_strategy_that_comes_late_is_told_so():
    late = "import tensorflow as tf\ntf.ones(2)\n" + PROGRAM.replace(
        "tf.config.set", "0 and tf.set"
    )
    process = start("auto", program=late, TF_CONFIG=config(free_hosts()))
    said = refusal(process)
    assert said.startswith("ValueError") and "make the strategy first" in said


def test_a_tpu_that_does_not_answer_is_told_so():
    said = refusal(start("auto", TPU_NAME="local"))
    assert said.startswith("ValueError: TPU_NAME is 'local', and no TPU answers")
