"""Writes a SavedModel from a model and named functions, and loads one."""

import os
import pathlib
import shutil
from collections.abc import Callable, Mapping, Sequence

import keras
import tensorflow as tf

_OURS = {"assets", "assets.extra", "fingerprint.pb", "saved_model.pb", "variables"}


def export_saved_model(
    model: keras.Model,
    path: str | os.PathLike,
    signatures: Mapping[str, tuple[Callable, Sequence[tf.TensorSpec]]],
    assets: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """Writes a SavedModel, whole or not at all.

    It is written beside `path` and then renamed, so a failure leaves what was there before.

    Args:
        model: the model whose variables the functions use.
        path: folder to write. A SavedModel that lies there is replaced.
        signatures: by name, a function and the specs of its arguments, named as callers name them.
            Put `"serving_default"` first.
        assets: by file name, the lines of a text file for the folder's `assets/`.

    Raises:
        ValueError: if `path` is a file, or a folder with anything but a SavedModel in it.
    """
    if "://" in os.fspath(path):
        raise ValueError(f"An export is written to a local folder, and {path} is a URL.")
    path = pathlib.Path(path).resolve()
    if path.exists() and not path.is_dir():
        raise ValueError(f"An export is a folder, and {path} is a file.")
    others = sorted({p.name for p in path.iterdir()} - _OURS) if path.is_dir() else []
    if others:
        raise ValueError(
            f"The folder {path} holds what is no part of a SavedModel ({', '.join(others)}): name "
            "a new folder."
        )
    partial, previous = (path.with_name(f".{path.name}.{end}") for end in ("partial", "previous"))
    if previous.exists() and not path.exists():
        previous.rename(path)  # An export was killed between its two renames.
    for leftover in (partial, previous):
        shutil.rmtree(leftover, ignore_errors=True)
    partial.parent.mkdir(parents=True, exist_ok=True)
    try:
        archive = keras.export.ExportArchive()
        archive.track(model)
        for name, (function, specs) in signatures.items():
            archive.add_endpoint(name, function, input_signature=list(specs))
        archive.write_out(str(partial), verbose=False)
        (partial / "assets").mkdir(exist_ok=True)
        for name, lines in (assets or {}).items():
            text = "".join(f"{line}\n" for line in lines)
            (partial / "assets" / name).write_text(text, encoding="utf-8", newline="\n")
        # The old model is out of the way for an instant only, and comes back if the new one
        # cannot take its place.
        if path.exists():
            path.rename(previous)
        try:
            partial.rename(path)
        except OSError:
            if previous.exists():
                previous.rename(path)
            raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        shutil.rmtree(previous, ignore_errors=True)


def load_saved_model(path: str | os.PathLike):
    """Loads an exported SavedModel, with the operations that its tokenizer needs.

    `tf.saved_model.load` does the same in a process that has imported `tensorflow_text`; without
    that import it fails with "Op type not registered".

    Args:
        path: folder of the SavedModel.

    Returns:
        The loaded object; call `loaded.signatures["serving_default"]`.
    """
    import tensorflow_text  # noqa: F401  (registers the operations)

    return tf.saved_model.load(os.fspath(path))
