"""The launcher of workers on one machine: what dies is started again, and nothing stays behind."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from conftest import ROOT

LAUNCHER = ROOT / "examples" / "launch_local_workers.py"
# Tells its start in a file of its own, then does what is asked of the worker's number.
WORKER = """
import json, os, pathlib, signal, sys, time
config = json.loads(os.environ["TF_CONFIG"])
index, folder = config["task"]["index"], pathlib.Path(sys.argv[1])
with open(folder / f"{index}.txt", "a") as file:
    print(os.getpid(), json.dumps(config["cluster"]["worker"]), file=file, flush=True)
starts = len((folder / f"{index}.txt").read_text().splitlines())
print("start", starts, flush=True)
"""


def launch(tmp_path, work, *flags):
    program = tmp_path / "worker.py"
    program.write_text(WORKER + work, encoding="utf-8")
    command = [sys.executable, LAUNCHER, *flags, "--", sys.executable, program, tmp_path]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def starts(tmp_path, index):
    """The process and the cluster of each start of a worker."""
    path = tmp_path / f"{index}.txt"
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    return [(int(line.split(" ", 1)[0]), json.loads(line.split(" ", 1)[1])) for line in lines]


def wait_for(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def is_there(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    # A process that nobody has waited for is there by name only.
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # It went in between.
        return False


def test_all_start_again_when_one_fails(tmp_path):
    work = "sys.exit(3) if index == 1 and starts < 3 else time.sleep(0.3 if starts == 3 else 60)"
    process = launch(tmp_path, work)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 0, said
    assert "[0] start 1" in said and "[1] start 3" in said
    assert said.count("Worker 1 ended with status 3") == 2
    first, second = starts(tmp_path, 0), starts(tmp_path, 1)
    assert len(first) == len(second) == 3
    assert [hosts for _, hosts in first] == [hosts for _, hosts in second]
    assert all(len(set(hosts)) == 2 for _, hosts in first)
    assert first[0][1] != first[1][1] != first[2][1]
    assert not any(is_there(number) for number, _ in first + second)


def test_a_worker_that_is_killed_restarts_both(tmp_path):
    process = launch(tmp_path, "time.sleep(60 if starts == 1 else 0.1)")
    wait_for(lambda: starts(tmp_path, 0) and starts(tmp_path, 1))
    os.kill(starts(tmp_path, 1)[0][0], signal.SIGKILL)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 0 and "Worker 1 ended with status -9" in said
    for index in (0, 1):
        (_, before), (_, after) = starts(tmp_path, index)
        assert before != after


def test_one_that_is_done_is_left_alone(tmp_path):
    process = launch(tmp_path, "time.sleep(0.5 * index)", "--workers=3")
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 0 and "again" not in said
    assert [len(starts(tmp_path, index)) for index in range(3)] == [1, 1, 1]


def test_it_gives_up(tmp_path):
    process = launch(tmp_path, "sys.exit(7)", "--max_restarts=2")
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 7 and "Given up after 2 restarts" in said
    assert len(starts(tmp_path, 0)) == 3


def test_a_worker_killed_for_good_gives_its_signal(tmp_path):
    process = launch(tmp_path, "os.kill(os.getpid(), signal.SIGKILL)", "--max_restarts=0")
    process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGKILL


def test_only_restarts_without_progress_count(tmp_path):
    """Three starts write a file each, and two more write the last one again."""
    work = "(folder / f'step-{min(starts, 3)}').touch()\nsys.exit(7) if index else time.sleep(60)"
    flags = ("--max_restarts=2", f"--progress_files={tmp_path}/step-*")
    process = launch(tmp_path, work, *flags)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 7 and "Given up after 2 restarts" in said
    assert len(starts(tmp_path, 1)) == 5


def test_the_last_lines_are_told_whole(tmp_path):
    work = "print(*[f'{index} says {n}' for n in range(20000)], sep='\\n', end=' and ends')"
    process = launch(tmp_path, work)
    said, _ = process.communicate(timeout=60)
    for index in (0, 1):
        lines = [line for line in said.splitlines() if line.startswith(f"[{index}] {index} says")]
        ends = [""] * 19999 + [" and ends"]
        assert lines == [f"[{index}] {index} says {n}{end}" for n, end in enumerate(ends)]


def test_what_a_worker_has_started_goes_with_it(tmp_path):
    work = """
import subprocess
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
(folder / f"child-{index}-{starts}").write_text(str(child.pid))
time.sleep(0.3)
sys.exit(3) if index and starts == 1 else None
time.sleep(0.2)
"""
    process = launch(tmp_path, work)
    said, _ = process.communicate(timeout=30)
    assert process.returncode == 0, said
    children = [int(path.read_text()) for path in tmp_path.glob("child-*")]
    assert len(children) == 4
    wait_for(lambda: not any(is_there(child) for child in children))


@pytest.mark.parametrize("heeds", [True, False])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_is_passed_on(tmp_path, heeds, number):
    answer = "signal.SIG_IGN" if not heeds else "lambda *_: (print('saved'), sys.exit(0))"
    work = f"signal.signal({int(number)}, {answer})\n"
    work += "(folder / f'ready-{index}').touch()\ntime.sleep(60)"
    process = launch(tmp_path, work, "--grace_seconds=0.5" if not heeds else "--grace_seconds=30")
    wait_for(lambda: len(list(tmp_path.glob("ready-*"))) == 2)
    process.send_signal(number)
    said, _ = process.communicate(timeout=30)
    assert process.returncode == 128 + number
    assert said.count("saved") == 2 * heeds and "again" not in said
    assert not any(is_there(starts(tmp_path, index)[0][0]) for index in (0, 1))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux kills children with their parent")
def test_none_outlives_a_launcher_that_is_killed(tmp_path):
    process = launch(tmp_path, "time.sleep(60)")
    wait_for(lambda: starts(tmp_path, 0) and starts(tmp_path, 1))
    process.kill()
    process.wait()
    wait_for(lambda: not any(is_there(starts(tmp_path, index)[0][0]) for index in (0, 1)))


def test_a_command_is_needed():
    done = subprocess.run([sys.executable, LAUNCHER, "--workers=2"], capture_output=True, text=True)
    assert done.returncode == 2 and "after -- comes the command" in done.stderr


def test_a_command_that_is_not_there():
    command = [sys.executable, LAUNCHER, "--", "./no-such-program"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 127
    assert done.stderr.splitlines() == [
        "./no-such-program cannot be started: No such file or directory"
    ]


def test_it_needs_no_tensorflow(tmp_path):
    code = "import runpy, sys; runpy.run_path(sys.argv[1]); print('tensorflow' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code, LAUNCHER], capture_output=True, text=True)
    assert done.stdout == "False\n"
