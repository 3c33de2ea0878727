"""Small files of text and of JSON, read with care: what is wrong with one is told in a sentence."""

import json
import os
import pathlib
from collections.abc import Iterator

BYTE_ORDER_MARK = "\ufeff"
_LARGEST = 128 * 1024**2  # Bytes; XLM-R's tokenizer.json, of 250,002 tokens, has 17 million.
_KINDS = {
    bool: "true or false",
    str: "a text",
    int: "a whole number",
    float: "a number",
    list: "a list",
    dict: "an object",
}


def read_text_file(path: str | os.PathLike, form: str) -> str:
    """Reads a file in UTF-8, without a byte order mark.

    Args:
        path: the file.
        form: what such a file looks like, in a sentence for the error.

    Raises:
        ValueError: if it cannot be read, is not UTF-8, or has more than 128 MiB.
    """
    path = pathlib.Path(path)
    try:
        size = path.stat().st_size
        if size > _LARGEST:
            raise ValueError(
                f"{path} has {size:,} bytes, more than the {_LARGEST:,} that are read. {form}"
            )
        if not path.is_file():
            raise ValueError(f"{path} is no file. {form}")
        return path.read_bytes().decode("utf-8").removeprefix(BYTE_ORDER_MARK)
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}. {form}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not a text file in UTF-8 ({error}). {form}") from error


class JsonObject:
    """An object of a JSON file, whose values are asked for by name and kind.

    A key that is missing, or whose value is null, gives `None`.

    Args:
        path: the file, for errors.
        values: the object.
        where: which part of the file it is, for errors, such as "model."
    """

    def __init__(self, path: str | os.PathLike, values: dict, where: str = ""):
        self.path = pathlib.Path(path)
        self._values = values
        self._where = where

    @classmethod
    def read(cls, path: str | os.PathLike) -> "JsonObject":
        """Reads a file that holds one object.

        Raises:
            ValueError: if it does not, or is no JSON in UTF-8.
        """
        mend = "Write it anew, or take the file of the original model."
        text = read_text_file(path, f"It must be JSON. {mend}")
        try:
            values = json.loads(text)
        except RecursionError:
            raise ValueError(f"{path} is nested too deeply to be read as JSON. {mend}") from None
        except ValueError as error:
            what = f"is no JSON ({error})" if text.strip() else "is empty"
            raise ValueError(f"{path} {what}. {mend}") from error
        if not isinstance(values, dict):
            raise ValueError(f"{path} must hold a JSON object, received {_shown(values)}. {mend}")
        return cls(path, values)

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def get(self, key: str, *kinds: type):
        """The value of a key, of one of these kinds: bool, str, int, float, list, dict."""
        value = self._values.get(key)
        # A bool is an int to Python, not to JSON.
        if value is None or type(value) in kinds:
            return value
        raise self.wrong(key, " or ".join(_KINDS[kind] for kind in kinds))

    def object(self, key: str) -> "JsonObject | None":
        """The object that a key has."""
        values = self.get(key, dict)
        return None if values is None else JsonObject(self.path, values, f"{self._where}{key}.")

    def objects(self, key: str) -> "list[JsonObject]":
        """The objects of the list that a key has."""
        values = self.get(key, list) or []
        if not all(isinstance(value, dict) for value in values):
            raise self.wrong(key, "a list of objects")
        place = f"{self._where}{key}"
        return [
            JsonObject(self.path, value, f"{place}[{number}].")
            for number, value in enumerate(values)
        ]

    def wrong(self, key: str, wanted: str) -> ValueError:
        """The error for a value that is not what is wanted."""
        found = _shown(self._values[key]) if key in self._values else "nothing"
        return ValueError(
            f"{self.path}: `{self._where}{key}` must be {wanted}, received {found}. Mend the file, "
            "or take that of the original model."
        )


def _shown(value) -> str:
    if isinstance(value, list | dict):
        return f"{_KINDS[type(value)]} of {len(value)}"
    return "null" if value is None else f"{value!r:.80}"
