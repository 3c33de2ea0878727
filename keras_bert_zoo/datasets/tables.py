"""Tables: TSV, CSV and JSON lines, with columns by name or by number."""

import csv
import json
import os
import pathlib
from collections.abc import Iterator, Mapping, Sequence

from keras_bert_zoo.datasets.rows import BadRow, Rows, read_lines

_FORMATS = {".tsv": "tsv", ".txt": "tsv", ".csv": "csv", ".jsonl": "jsonl", ".json": "jsonl"}


def read_table(
    path: str | os.PathLike,
    columns: Mapping[str, str | int],
    optional: Sequence[str] = (),
    header: bool | None = None,
    form: str | None = None,
    skip_bad_rows: bool = False,
) -> Rows:
    """Reads named columns of a table.

    In TSV a quote is a character like any other, as in GLUE's files; in CSV it quotes.

    Args:
        path: the file.
        columns: by the name that a column gets, its name in the header, or its number from 0 in a
            file without one. In JSON lines, its key.
        optional: names among `columns` whose column may be missing from the whole file; then they
            are missing from each row.
        header: whether the first line names the columns; by default if a column is asked for by
            name.
        form: `"tsv"`, `"csv"` or `"jsonl"`; by default as the file's name ends.
        skip_bad_rows: whether to go on after a row that is malformed, and list it.

    Returns:
        `Rows` of dicts of strings, with the number of the line under `"line"`.

    Raises:
        ValueError: if the file cannot be read, a column is missing, a row is malformed, or there is
            no row.
    """
    path = pathlib.Path(path)
    form = form or _FORMATS.get(path.suffix.lower())
    if form not in ("tsv", "csv", "jsonl"):
        raise ValueError(
            f"{path}: how a table is written is told by its name, which ends in "
            f"{', '.join(_FORMATS)}, or by `form`. Received: form={form!r}"
        )
    if form == "jsonl":
        return Rows.read(path, _lines(path), _json_parser(columns, optional), skip_bad_rows)
    rows = _csv_rows(path) if form == "csv" else ((n, t.split("\t")) for n, t in _lines(path))
    by_name = [wanted for wanted in columns.values() if isinstance(wanted, str)]
    if header is None:
        header = bool(by_name)
    names = next(rows, (1, []))[1] if header else None
    places, width = _places(path, columns, optional, names)

    def parse(line, row):
        if names is not None and len(row) != width:
            raise BadRow(f"the header has {width} columns, and this row {len(row)}: {row!r:.200}")
        if len(row) <= max(places.values()):
            raise BadRow(f"{max(places.values()) + 1} columns are needed: {row!r:.200}")
        return {"line": line} | {name: row[place] for name, place in places.items()}

    return Rows.read(path, rows, parse, skip_bad_rows)


def _lines(path) -> Iterator[tuple[int, str]]:
    """The lines, but for empty ones at the end of the file."""
    empty = []
    for line in read_lines(path):
        if line[1]:
            yield from empty
            empty = []
            yield line
        else:
            empty.append(line)


def _csv_rows(path):
    """The rows of a CSV file, each with the line it begins at."""
    reader = csv.reader((f"{text}\n" for _, text in _lines(path)), strict=True)
    line = 1
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise ValueError(
                f"{path}, line {line}: not CSV ({error}). A text with a comma, a quote or a line "
                "end stands in quotes, and a quote within is written twice."
            ) from None
        yield line, row
        line = reader.line_num + 1


def _places(path, columns, optional, names):
    """The place of each column, and how many the header has."""
    places, missing = {}, []
    for name, wanted in columns.items():
        if isinstance(wanted, int):
            places[name] = wanted
        elif names is not None and names.count(wanted) == 1:
            places[name] = names.index(wanted)
        elif name not in optional:
            missing.append(wanted)
    if missing:
        there = "no header" if names is None else f"the columns {', '.join(names)}"
        raise ValueError(
            f"{path} has {there}, and {', '.join(map(repr, missing))} is asked for, once each."
        )
    return places, None if names is None else len(names)


def _json_parser(columns, optional):
    def parse(line, text):
        try:
            row = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise BadRow(f"not JSON ({error}): {text:.100}") from None
        if not isinstance(row, dict):
            raise BadRow(f"a JSON object is needed: {text:.100}")
        found = {"line": line}
        for name, key in columns.items():
            if key in row:
                value = row[key]
                if isinstance(value, (dict, list)) or value is None:
                    raise BadRow(f"`{key}` must be a text or a number: {value!r:.100}")
                found[name] = value if isinstance(value, str) else json.dumps(value)
            elif name not in optional:
                raise BadRow(f"there is no `{key}`, but {', '.join(row)}")
        return found

    return parse
