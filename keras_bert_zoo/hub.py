"""Finds the folder of a model: on this machine, or on the Hugging Face hub.

A hub's files are fetched by the library huggingface_hub alone. So its cache, its progress bars and
its environment variables (`HF_HOME`, `HF_HUB_OFFLINE`, `HF_TOKEN`, `HF_ENDPOINT`) hold here too.
"""

import difflib
import os
import pathlib
import re

from keras_bert_zoo.presets import PRESETS

_SETTINGS = (
    "config.json",
    "vocab.txt",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    # How sentence-transformers makes a vector of a text.
    "modules.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
    "1_Pooling/config.json",
)
_SAFETENSORS = ("model.safetensors", "model.safetensors.index.json", "model-*-of-*.safetensors")
_PICKLES = (
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
    "pytorch_model-*-of-*.bin",
)
_ADDRESS = re.compile(r"hf://(?P<repo>[\w.-]+/[\w.-]+)(@(?P<revision>[\w+-][\w./+-]*))?")


def find_folder(preset: str | os.PathLike, load_weights: bool = True) -> pathlib.Path:
    """Returns the folder of a model, fetched from the Hugging Face hub if it must be.

    Args:
        preset: an existing folder; `"hf://owner/name"` or `"hf://owner/name@revision"`, where the
            revision is a branch, a tag or a commit; or a name in `keras_bert_zoo.presets.PRESETS`,
            which stands for its hub id. Such a name means the preset even where a folder has that
            name; the folder is then `"./name"`.
        load_weights: whether the weights are fetched too: safetensors, or `pytorch_model.bin`
            where there are none. A folder on this machine is returned as it is.

    Returns:
        The folder, or huggingface_hub's snapshot of the revision, which is in its cache: read
        from it, never write to it.

    Raises:
        ImportError: if the hub is needed and huggingface_hub is not installed.
        OSError: if this machine cannot store the files (no space, no right to write).
        ValueError: if there is no such folder, repository or revision, access to it is not
            granted, it has no weights that can be read, or it is not cached and the hub cannot
            be reached.
    """
    if not isinstance(preset, str | os.PathLike) or not os.fspath(preset):
        raise ValueError(f"A model is named by a folder or a name. Received: {preset!r}")
    name = preset if isinstance(preset, str) else None
    if name is not None and name.startswith("hf://"):
        return _download(*_parse(name), load_weights)
    if name in PRESETS:
        return _download(PRESETS[name].hub_id, None, load_weights)
    path = pathlib.Path(os.path.expanduser(preset))
    if os.path.isdir(path):  # pathlib's own raises if the name is too long for a file.
        return path
    if os.path.isfile(path) or os.path.isfile(f"{path}.index"):
        raise ValueError(
            f"A model is named by its folder, and {path} is a file in one. Name the folder: "
            f"{str(path.parent)!r}"
        )
    raise ValueError(_nothing(os.fspath(preset), path))


def _nothing(preset, path):
    """The message that says what would have done."""
    place = "" if "://" in preset else f", and {path.absolute()} is no folder"
    hint = ""
    if re.fullmatch(r"(https?://[\w.]+/)?[\w.-]+/[\w.-]+", preset):
        hint = f" (here 'hf://{'/'.join(preset.split('/')[-2:])}')"
    asked = re.split(r"[/@]", preset.rstrip("/"))[-1].lower().replace("-", "_")
    close = difflib.get_close_matches(asked, PRESETS, cutoff=0.7)
    names = [*close, *(name for name in PRESETS if name not in close)]
    return (
        f"No model is named {preset!r}{place}. Name an existing folder, a model of the Hugging "
        f"Face hub as 'hf://owner/name'{hint}, or one of: {', '.join(names)}"
    )


def _parse(address):
    """Repository and revision (None for the default branch) of an address."""
    match = _ADDRESS.fullmatch(address)
    if not match or ".." in address:
        raise ValueError(
            "A model of the Hugging Face hub is written 'hf://owner/name' or "
            f"'hf://owner/name@revision'. Received: {address!r}"
        )
    return match["repo"], match["revision"]


def _download(repo, revision, load_weights):
    try:
        import huggingface_hub
        from huggingface_hub import errors
    except ImportError as error:
        raise ImportError(
            f"Reading {repo} of the Hugging Face hub needs huggingface_hub: "
            "pip install 'keras-bert-zoo[hub]'"
        ) from error
    wanted = [*_SETTINGS, *(_SAFETENSORS if load_weights else ())]
    try:
        folder = huggingface_hub.snapshot_download(repo, revision=revision, allow_patterns=wanted)
        folder = pathlib.Path(folder)
        if load_weights and not _has(folder, _SAFETENSORS):
            # The folder is named by its commit, so both calls speak of the same one.
            huggingface_hub.snapshot_download(
                repo, revision=folder.name, allow_patterns=[*wanted, *_PICKLES]
            )
    except (errors.HTTPError, errors.HFValidationError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # Of this machine, not of the hub: no space, no right to write.
        where = f"hf://{repo}" + (f"@{revision}" if revision else "")
        raise ValueError(_trouble(error, errors, repo, revision, where)) from error
    if load_weights and not _has(folder, _SAFETENSORS + _PICKLES):
        raise ValueError(
            f"No weights that can be read ({', '.join(_SAFETENSORS + _PICKLES)}) are in {folder}: "
            f"hf://{repo} has none, or the network is off and they were never fetched. "
            "`load_weights=False` takes its config and vocabulary alone."
        )
    return folder


def _has(folder, patterns):
    return any(file for pattern in patterns for file in folder.glob(pattern))


def _trouble(error, errors, repo, revision, where):
    """What went wrong at the hub and what would do, in one message."""
    causes = [error]
    while causes[-1].__cause__ is not None:
        causes.append(causes[-1].__cause__)
    if isinstance(error, errors.HFValidationError):
        return f"{where} is no address of the Hugging Face hub: {error}"
    if isinstance(error, errors.GatedRepoError):
        return (
            f"Access to {where} must be granted first: ask for it on its page of the hub, then "
            "run `hf auth login` or set HF_TOKEN to a token of that account."
        )
    if isinstance(error, errors.RevisionNotFoundError):
        return f"{repo} has no revision {revision!r}: name a branch, a tag or a whole commit hash."
    if isinstance(error, errors.RepositoryNotFoundError):
        return (
            f"The hub shows no model {repo}: it does not exist, or it is private. Check the "
            "spelling; for a private one run `hf auth login` or set HF_TOKEN."
        )
    fetch = f"hf download {repo}" + (f" --revision {revision}" if revision else "")
    if any(isinstance(cause, errors.OfflineModeIsEnabled) for cause in causes):
        return (
            f"{where} is not in the cache, or not whole, and HF_HUB_OFFLINE forbids to fetch it. "
            f"Fetch it once with the network on (`{fetch}`), or unset HF_HUB_OFFLINE."
        )
    return (
        f"{where} could not be fetched from the hub ({' '.join(str(causes[-1]).split()):.200}). "
        f"Try again with the network on; where there is none, `{fetch}` on another machine and "
        "name the folder."
    )
