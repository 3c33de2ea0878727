"""Starts several workers of a training on this machine, and starts all again when one dies.

    python examples/launch_local_workers.py --workers 2 -- \\
        python examples/pretrain.py --strategy multi_worker ...

Each worker gets TF_CONFIG, with free ports, and its lines begin with its number. When one dies, the
others wait for it and would not even heed SIGTERM: all are killed and started again, and go on from
their snapshot. SIGTERM and SIGINT are passed on; a worker that is not gone after `--grace_seconds`
is killed. The exit status is 0 if all end with 0, else that of the worker that failed last. This is
for trying things out: a cluster has a scheduler for it.
"""

import argparse
import contextlib
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

_POLL = 0.05  # Seconds.
_PDEATHSIG = 1  # Linux's name for: send me a signal when my parent dies.


def parse(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workers", type=int, default=2, help="How many to start.")
    parser.add_argument("--max_restarts", type=int, default=10, help="Then it gives up.")
    parser.add_argument("--grace_seconds", type=float, default=60.0, help="Between TERM and KILL.")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="-- and what to run.")
    options = parser.parse_args(arguments)
    options.command = options.command[options.command[:1] == ["--"] :]
    if options.workers < 1 or not options.command:
        parser.error("--workers is at least 1, and after -- comes the command to run.")
    return options


def free_ports(count):
    """Ports that nobody listens on."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("localhost", 0))
        return [each.getsockname()[1] for each in sockets]


def die_with_parent():
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGKILL)


class Workers:
    """The processes of one start."""

    def __init__(self, command, count):
        hosts = [f"localhost:{port}" for port in free_ports(count)]
        self.processes = []
        for index in range(count):
            config = {"cluster": {"worker": hosts}, "task": {"type": "worker", "index": index}}
            process = subprocess.Popen(
                command,
                env=os.environ | {"TF_CONFIG": json.dumps(config)},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                # A group of its own, so that what it starts is killed with it.
                start_new_session=True,
                preexec_fn=die_with_parent,
            )
            self.processes.append(process)
            threading.Thread(target=self._tell, args=(index, process), daemon=True).start()

    def statuses(self):
        return [process.poll() for process in self.processes]

    def send(self, number):
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)

    def end(self):
        """Kills what is left, and waits for it."""
        self.send(signal.SIGKILL)
        for process in self.processes:
            process.wait()

    def _tell(self, index, process):
        for line in process.stdout:
            print(f"[{index}] {line}", end="", flush=True)


def main(arguments):
    options = parse(arguments)
    received = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: received.append(number))
    restarts = 0
    workers = Workers(options.command, options.workers)
    try:
        while True:
            statuses = workers.statuses()
            if received:
                workers.send(received[0])
                deadline = time.monotonic() + options.grace_seconds
                while None in workers.statuses() and time.monotonic() < deadline:
                    time.sleep(_POLL)
                return 128 + received[0]
            if all(status == 0 for status in statuses):
                return 0
            failed = [(n, status) for n, status in enumerate(statuses) if status not in (None, 0)]
            if failed:
                index, status = failed[0]
                print(f"Worker {index} ended with status {status}.", flush=True)
                workers.end()
                if restarts == options.max_restarts:
                    print(f"Given up after {restarts} restarts.", flush=True)
                    return status if status > 0 else 128 - status
                restarts += 1
                print(f"All start again ({restarts} of {options.max_restarts}).", flush=True)
                workers = Workers(options.command, options.workers)
            time.sleep(_POLL)
    finally:
        workers.end()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
