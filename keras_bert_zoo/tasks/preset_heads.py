"""What a preset tells of a head: its labels, its dropout, and whether it is of this task at all."""

from collections.abc import Sequence

from keras_bert_zoo.checkpoints.folder import PresetFolder


def classifier_arguments(
    folder: PresetFolder, classes: int | None, given: dict, architecture: str, regression=False
) -> tuple[dict, dict]:
    """Completes the arguments of a task whose head is called a classifier.

    Labels and dropout are the preset's unless they are given. Its weights are this task's if they
    are of the same architecture, as far as the config tells, and have the labels that are given, or
    as many where the preset's have no names of their own.

    Args:
        folder: the preset.
        classes: outputs of the classifier among its weights; `None` if there is none.
        given: the constructor's arguments as the caller gave them.
        architecture: Hugging Face's class of this task.
        regression: whether a classifier of one output, without labels, is one of this task.

    Returns:
        All arguments; and by the part that is not to be loaded the reason, `None` if there is
        nothing to say.

    Raises:
        ValueError: if the labels given are the preset's in another order.
    """
    given = dict(given)
    if folder.path is not None:
        given.setdefault("dropout", head_dropout(folder))
    reason = None
    if classes is not None:
        reason = of_another_class(folder, architecture)
    if classes is None or reason:
        if "labels" not in given and not regression:
            raise ValueError(
                f"{folder.path or 'The preset'} has no labels of its own for this task: pass "
                f"`labels=[...]`.{f' ({reason.capitalize()}.)' if reason else ''}"
            )
        return given, {"classifier": reason}
    names = folder.label_names
    default = [f"LABEL_{number}" for number in range(classes)]
    if names is None or len(names) != classes:
        names = default
    if "labels" not in given:
        given["labels"] = None if regression and classes == 1 else names
        return given, {}
    labels = given["labels"]
    wanted = [] if labels is None else [labels] if isinstance(labels, str) else list(labels)
    if max(len(wanted), 1) != classes:
        return given, {"classifier": f"the classifier there has {classes} outputs"}
    if not wanted or names == default or wanted == names:
        return given, {}
    if sorted(map(str, wanted)) == sorted(names):
        raise ValueError(
            f"The head in {folder.path} has these labels in another order: {', '.join(names)}. "
            f"Leave `labels` out, or give them in that order. Received: {', '.join(wanted)}"
        )
    return given, {"classifier": f"the classifier there has the labels {', '.join(names)}"}


def of_another_class(folder: PresetFolder, architecture: str) -> str | None:
    """Tells if a preset's classifier is that of another class of Hugging Face's, if one can."""
    if not folder.architectures or architecture in folder.architectures:
        return None
    return f"the classifier there is of {', '.join(folder.architectures)}"


def head_dropout(folder: PresetFolder) -> float:
    """The rate of a head's dropout that a preset's config tells.

    Raises:
        ValueError: if it is none.
    """
    dropout = folder.values.get("classifier_dropout")
    if dropout is None:
        return folder.config.hidden_dropout_prob
    if isinstance(dropout, bool) or not isinstance(dropout, (int, float)) or not 0 <= dropout < 1:
        raise ValueError(
            f"The config in {folder.path} has a `classifier_dropout` that is no rate in [0, 1). "
            f"Received: {dropout!r}"
        )
    return float(dropout)


def label_settings(labels: Sequence[str]) -> dict:
    """Labels as a Hugging Face config has them."""
    return {
        "id2label": {str(number): label for number, label in enumerate(labels)},
        "label2id": {label: number for number, label in enumerate(labels)},
    }
