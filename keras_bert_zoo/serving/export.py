"""Writes a SavedModel from a model and named functions, and loads one."""

import os
from collections.abc import Callable, Mapping, Sequence

import keras
import tensorflow as tf

from keras_bert_zoo.folders import replaced_folder

_OURS = {"assets", "assets.extra", "fingerprint.pb", "saved_model.pb", "variables"}


def export_saved_model(
    model: keras.Model,
    path: str | os.PathLike,
    signatures: Mapping[str, tuple[Callable, Sequence[tf.TensorSpec]]],
    assets: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """Writes a SavedModel, whole or not at all.

    It is written beside `path` and then renamed, so a failure leaves what was there before
    (`keras_bert_zoo.folders.replaced_folder`).

    Args:
        model: the model whose variables the functions use.
        path: folder to write. A SavedModel that lies there is replaced.
        signatures: by name, a function and the specs of its arguments, named as callers name them.
            Put `"serving_default"` first.
        assets: by file name, the lines of a text file for the folder's `assets/`.

    Raises:
        BlockingIOError: if another process is writing the same folder.
        OSError: if nothing can be written there.
        ValueError: if `path` is a URL, a file, a folder with anything but a SavedModel in it, a
            mount point, or the working directory.
    """
    with replaced_folder(path, _OURS, "a SavedModel") as folder:
        archive = keras.export.ExportArchive()
        archive.track(model)
        for name, (function, specs) in signatures.items():
            archive.add_endpoint(name, function, input_signature=list(specs))
        archive.write_out(str(folder), verbose=False)
        (folder / "assets").mkdir(exist_ok=True)
        for name, lines in (assets or {}).items():
            text = "".join(f"{line}\n" for line in lines)
            (folder / "assets" / name).write_text(text, encoding="utf-8", newline="\n")


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
