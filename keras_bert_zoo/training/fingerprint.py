"""What must not change between the parts of a training, and how two such differ."""

import hashlib
import json
from collections.abc import Mapping

import keras

from keras_bert_zoo.tasks.step import SteppedModel

_LONGEST = 200  # Characters of a value that is kept as it is; of a longer one the checksum.


def fingerprint(task: SteppedModel, more: Mapping | None = None) -> dict[str, str]:
    """The settings of a compiled task, its optimizer and its vocabulary, by name.

    Args:
        task: the task.
        more: further ones, as JSON holds them.

    Returns:
        A flat dict of JSON texts; those of long values, such as a vocabulary, as a checksum.
    """
    told = {
        "task": keras.saving.serialize_keras_object(task),
        "optimizer": keras.saving.serialize_keras_object(task.optimizer),
        # Files keep it beside the config.
        "vocabulary": getattr(task, "tokenizer", None) and list(task.tokenizer.vocabulary),
        **(more or {}),
    }
    # Names are counted up in a process, and mean nothing.
    return {
        name: value
        for name, value in _flat(json.loads(json.dumps(told, default=str)))
        if name.rpartition(".")[2] not in ("name", "build_config", "compile_config")
        and ".compile_config." not in f".{name}."
        and ".build_config." not in f".{name}."
    }


def differences(former: Mapping[str, str], present: Mapping[str, str]) -> list[str]:
    """What differs, a phrase each."""
    absent = "nothing"
    return [
        f"{name} was {former.get(name, absent)} and is {present.get(name, absent)}"
        for name in sorted({*former, *present})
        if former.get(name) != present.get(name)
    ]


def _flat(value, name=""):
    if isinstance(value, dict) and value:
        for key, part in value.items():
            yield from _flat(part, f"{name}.{key}" if name else key)
        return
    text = json.dumps(value)
    if len(text) > _LONGEST:
        text = f"one of checksum {hashlib.sha256(text.encode()).hexdigest()[:16]}"
    yield name, text
