"""What the scorers share as programs: files read with the line named in errors, JSON last."""

import json
import math
import os
import sys
import warnings
from collections.abc import Callable


def read_text(path: str | os.PathLike) -> str:
    """The text of a UTF-8 file, with its line ends as they are and without a byte order mark.

    Raises:
        ValueError: if the file is not UTF-8; the message names the line.
        OSError: if it cannot be read.
    """
    with open(path, "rb") as file:
        content = file.read()
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"{os.fspath(path)}, line {line}: not UTF-8. Convert the file to UTF-8."
        ) from error


def read_lines(path: str | os.PathLike) -> list[str]:
    """The lines of a UTF-8 file, ended by "\\n" or "\\r\\n" and by nothing else.

    Raises as `read_text` does.
    """
    # Not splitlines(): it would also split at U+2028 or U+0085, which are part of a text.
    lines = [line.removesuffix("\r") for line in read_text(path).split("\n")]
    return lines[:-1] if lines[-1] == "" else lines


def read_json(path: str | os.PathLike) -> object:
    """The content of a JSON file.

    Raises:
        ValueError: if the file is not JSON, or not UTF-8; the message names the line.
        OSError: if it cannot be read.
    """
    try:
        return json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{os.fspath(path)}, line {error.lineno}: not JSON ({error.msg} at column "
            f"{error.colno})."
        ) from error


def run(main: Callable[[], dict]) -> None:
    """Runs a scorer's `main` and prints what it returns as the last line, in JSON.

    Scores that are not defined (NaN) are null. Warnings go to stderr, a line each. On an OSError or
    a ValueError the process ends with status 1 and its message on stderr.
    """
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_: print(f"warning: {message}", file=sys.stderr)
        try:
            scores = main()
        except (OSError, ValueError) as error:
            sys.exit(f"error: {error}")
    print(json.dumps(_plain(scores), allow_nan=False))


def _plain(value):
    """Dicts with strings as keys, and None in place of NaN, which JSON does not have."""
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
