"""Starts several workers of a training on this machine, and starts all again when one dies.

    python examples/launch_local_workers.py --workers 2 -- \\
        python examples/pretrain.py --strategy multi_worker ...

Each worker gets TF_CONFIG, with free ports, and its lines begin with its number. When one dies, the
others wait for it and would not even heed SIGTERM: all are killed and started again, and go on from
their snapshot. After `--max_restarts` of these it gives up; with `--progress_files`, such as
"OUT/snapshots/step-*", only those in a row count between which no new one of these came. SIGTERM
and SIGINT are passed on; a worker that is not gone after `--grace_seconds` is killed. The exit
status is 0 if all end with 0, else that of the worker that failed last. On Linux no worker outlives
the launcher, even if that is killed; what a worker itself has started then may. This is for trying
things out: a cluster has a scheduler for it.
"""

import argparse
import contextlib
import ctypes
import glob
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
    parser.add_argument("--progress_files", help="A pattern; a new one sets the restarts to 0.")
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


def die_with_parent(parent):
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # It died before it was asked for.
            os.kill(os.getpid(), signal.SIGKILL)


def found(pattern):
    return set(glob.glob(pattern)) if pattern else set()


class Workers:
    """The processes of one start."""

    def __init__(self, command, count):
        hosts = [f"localhost:{port}" for port in free_ports(count)]
        parent = os.getpid()
        self.processes, self.threads = [], []
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
                preexec_fn=lambda: die_with_parent(parent),
            )
            self.processes.append(process)
            thread = threading.Thread(target=self._tell, args=(index, process), daemon=True)
            thread.start()
            self.threads.append(thread)

    def statuses(self):
        for process in self.processes:
            if process.returncode is None and process.poll() is not None:
                # Now, as later its number may be another's.
                self._send(process, signal.SIGKILL)
        return [process.returncode for process in self.processes]

    def send(self, number):
        """Sends a signal to the workers that are not done, and to what they have started."""
        for process, status in zip(self.processes, self.statuses(), strict=True):
            if status is None:
                self._send(process, number)

    def end(self):
        """Kills what is left, waits for it, and tells its last lines."""
        self.send(signal.SIGKILL)
        for process in self.processes:
            process.wait()
        for thread in self.threads:
            thread.join(timeout=1)

    @staticmethod
    def _send(process, number):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)

    @staticmethod
    def _tell(index, process):
        for line in process.stdout:
            whole = line if line.endswith("\n") else line + "\n"
            # In one piece, as others tell too. If nobody listens, the worker goes on all the same.
            with contextlib.suppress(BrokenPipeError):
                sys.stdout.write(f"[{index}] {whole}")
                sys.stdout.flush()


def main(arguments):
    options = parse(arguments)
    received = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: received.append(number))
    restarts, known = 0, found(options.progress_files)
    try:
        workers = Workers(options.command, options.workers)
    except OSError as error:
        print(f"{options.command[0]} cannot be started: {error.strerror}", file=sys.stderr)
        return 127
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
                new = found(options.progress_files) - known
                if new:
                    restarts, known = 0, known | new
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
