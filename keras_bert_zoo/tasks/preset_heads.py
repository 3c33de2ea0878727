"""What a preset tells of a head: its labels, its dropout, and whether it is of this task at all."""

from collections.abc import Sequence

from keras_bert_zoo.checkpoints.folder import PresetFolder
from keras_bert_zoo.tasks.labels import checked_labels


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
    reason = of_another_class(folder, architecture)
    names = None if reason else folder.label_names
    if given.get("labels") is not None:
        given["labels"] = checked_labels(given["labels"], fewest=1)
    if classes is None or reason:
        # A new head, of the labels that the config tells of nevertheless.
        one_number = regression and (names is None or len(names) == 1)
        if "labels" not in given and not one_number:
            if names is None:
                because = f" ({reason[0].upper()}{reason[1:]}.)" if reason else ""
                raise ValueError(
                    f"{folder.path or 'The preset'} has no labels of its own for this task: pass "
                    f"`labels=[...]`.{because}"
                )
            given["labels"] = _own_labels(folder, names)
        return given, {"classifier": reason if classes is not None else None}

    default = [f"LABEL_{number}" for number in range(classes)]
    if names is None or names == default[: len(names)]:
        names = default  # Older configs name two labels whatever the head has.
    elif len(names) != classes:
        raise ValueError(
            f"The config in {folder.path} names {len(names)} labels, and the classifier there has "
            f"{_outputs(classes)}: mend its `id2label`."
        )
    if "labels" not in given:
        alone = regression and classes == 1
        given["labels"] = None if alone else _own_labels(folder, names)
        return given, {}
    wanted = given["labels"] or []
    if max(len(wanted), 1) != classes:
        return given, {"classifier": f"the classifier there has {_outputs(classes)}"}
    if not wanted or wanted == names:
        return given, {}
    if sorted(wanted) == sorted(names):
        raise ValueError(
            f"The head in {folder.path} has these labels in another order: {', '.join(names)}. "
            f"Leave `labels` out, or give them in that order. Received: {', '.join(wanted)}"
        )
    # Names that could not be labels are replaced by those given, and so are default ones.
    if names == default or _unusable(names):
        return given, {}
    return given, {"classifier": f"the classifier there has the labels {', '.join(names)}"}


def _own_labels(folder, names):
    wrong = _unusable(names)
    if wrong:
        raise ValueError(
            f"The labels in the config of {folder.path} cannot be used: {wrong} Pass "
            "`labels=[...]`, in the order of its `id2label`."
        )
    return names


def _unusable(names):
    """Why names cannot be labels, or `None`."""
    try:
        checked_labels(names, fewest=1)
    except ValueError as error:
        return str(error)
    return None


def _outputs(classes):
    return f"{classes} output{'s' if classes > 1 else ''}"


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


def check_problem_type(folder: PresetFolder, kinds: Sequence[str], instead: str) -> None:
    """Checks what a preset's classifier decides.

    Args:
        folder: the preset.
        kinds: the values of the config's `problem_type` that the task is for.
        instead: the task for the other ones.

    Raises:
        ValueError: if it is another kind, or none at all.
    """
    kind = folder.values.get("problem_type")
    if kind is None or kind in kinds:
        return
    known = ("regression", "single_label_classification", "multi_label_classification")
    if kind not in known:
        raise ValueError(
            f"The config in {folder.path} has a `problem_type` that is none of {', '.join(known)}. "
            f"Received: {kind!r:.80}"
        )
    raise ValueError(
        f"The model in {folder.path} is for {kind} (its `problem_type`): load it as {instead}."
    )


def label_settings(labels: Sequence[str]) -> dict:
    """Labels as a Hugging Face config has them."""
    return {
        "id2label": {str(number): label for number, label in enumerate(labels)},
        "label2id": {label: number for number, label in enumerate(labels)},
    }
