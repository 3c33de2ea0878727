"""Processes that are measured in turns, so that what else the machine does falls on all."""

import json
import subprocess
import sys


class Side:
    """A process that does a piece of work when asked, and waits in between.

    It runs the same script with one more flag, and speaks JSON, a line at a time: first `{"ready":
    ...}`, or `{"not_installed": NAME}` instead, then an answer to each line that it is given.

    Args:
        name: for messages.
        flags: what the script is given besides its own arguments.
    """

    def __init__(self, name: str, *flags: str):
        self.name = name
        self.process = subprocess.Popen(
            [sys.executable, *sys.argv, *flags],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.turns = []
        self.not_installed = self._answer().get("not_installed")

    def turn(self, asked) -> dict:
        """Has it do a piece of work; keeps the answer, and returns it."""
        self.process.stdin.write(f"{json.dumps(asked)}\n")
        self.process.stdin.flush()
        self.turns.append(self._answer())
        return self.turns[-1]

    def total(self, name: str):
        """The sum of a number over all turns."""
        return sum(turn[name] for turn in self.turns)

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()

    def _answer(self):
        for line in self.process.stdout:
            if line.startswith("{"):  # Libraries talk too.
                return json.loads(line)
        raise SystemExit(f"{self.name} failed: see above.")


def installed(sides: list[Side]) -> list[Side]:
    """Those whose library is there; of the others it is said."""
    for side in sides:
        if side.not_installed:
            print(f"{side.name} is left out: {side.not_installed} is not installed.")
    return [side for side in sides if not side.not_installed]


def serve(prepare, work) -> None:
    """Answers the lines of the input, as the process of a `Side`.

    Args:
        prepare: makes what `work` needs.
        work: takes that and what is asked for, and gives the answer, a dict.
    """
    try:
        prepared = prepare()
    except ModuleNotFoundError as error:
        print(json.dumps({"not_installed": error.name}), flush=True)
        return
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        print(json.dumps(work(prepared, json.loads(line))), flush=True)
