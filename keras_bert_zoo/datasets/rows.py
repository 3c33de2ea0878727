"""Rows of data files: read line by line, with errors that name the line, or skipped and counted."""

import dataclasses
import os
import pathlib
from collections.abc import Iterator, Sequence

_BYTE_ORDER_MARK = "\ufeff"
_LISTED = 5  # How many skipped rows a summary tells of.


class BadRow(ValueError):
    """What is wrong with one row, without file and line, which `Rows.read` adds."""


@dataclasses.dataclass(frozen=True)
class Rows:
    """What a file holds.

    Attributes:
        path: the file.
        examples: the examples, in the order of the file.
        skipped: the line and what is wrong with it, of the rows that were skipped.
    """

    path: str
    examples: Sequence
    skipped: Sequence[tuple[int, str]] = ()

    def __iter__(self):
        return iter(self.examples)

    def __len__(self):
        return len(self.examples)

    @classmethod
    def read(cls, path: str | os.PathLike, rows: Iterator, parse, skip_bad_rows: bool = False):
        """Parses rows one by one.

        Args:
            path: the file, for messages.
            rows: pairs of a line's number, from 1, and what stands there.
            parse: makes an example of `(line, row)`, or raises `BadRow`; `None` is no example.
            skip_bad_rows: whether to go on after a bad row, and list it.

        Raises:
            ValueError: if a row is bad, or there is no good one at all.
        """
        path = os.fspath(path)
        examples, skipped = [], []
        for line, row in rows:
            try:
                example = parse(line, row)
            except BadRow as error:
                if not skip_bad_rows:
                    raise ValueError(f"{path}, line {line}: {error}") from None
                skipped.append((line, str(error)))
                continue
            if example is not None:
                examples.append(example)
        if not examples:
            bad = f" All {len(skipped)} rows are bad, {cls(path, [], skipped).summary}" * bool(
                skipped
            )
            raise ValueError(f"{path} holds no examples.{bad}")
        return cls(path, examples, skipped)

    @property
    def summary(self) -> str:
        """The skipped rows in a sentence; "" if there are none."""
        if not self.skipped:
            return ""
        first = "; ".join(f"line {line}: {reason}" for line, reason in self.skipped[:_LISTED])
        more = f"; and {len(self.skipped) - _LISTED} more" if len(self.skipped) > _LISTED else ""
        return f"{len(self.skipped)} rows of {self.path} were skipped: {first}{more}"


def read_lines(path: str | os.PathLike) -> Iterator[tuple[int, str]]:
    """Yields the lines of a file with their numbers, from 1, without their ends.

    Only LF and CR LF end a line. A byte order mark is no part of the first one.

    Raises:
        ValueError: if the file cannot be read, or a line is not UTF-8.
    """
    path = pathlib.Path(path)
    try:
        with open(path, "rb") as file:
            for number, line in enumerate(file, 1):
                try:
                    text = line.decode("utf-8")
                except UnicodeDecodeError as error:
                    raise ValueError(
                        f"{path}, line {number}: not UTF-8 ({error}). Save the file as UTF-8."
                    ) from None
                if number == 1:
                    text = text.removeprefix(_BYTE_ORDER_MARK)
                yield number, text.removesuffix("\n").removesuffix("\r")
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error
