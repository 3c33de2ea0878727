"""Names of labels, and what the tasks that have such refuse."""

from collections.abc import Iterable, Sequence

import tensorflow as tf

from keras_bert_zoo.text.layer import check_encodable


def checked_labels(labels: Sequence[str], fewest: int = 2, advice: str = "") -> list[str]:
    """Returns the names of labels as a list, once it is known that they are such.

    Args:
        labels: the names; a single string is one name.
        fewest: how many there must be, 1 or 2.
        advice: a sentence for the error when there are fewer.

    Raises:
        ValueError: if there are too few, one stands twice, or one is no line of text.
    """
    if not isinstance(labels, Iterable) or isinstance(labels, bytes):
        raise ValueError(f"`labels` must be a list of names. Received: {labels!r:.80}")
    labels = [labels] if isinstance(labels, str) else list(labels)
    for label in labels:
        if not isinstance(label, str):
            raise ValueError(
                f"Labels are names, as strings, and one is {label!r}. In data a number "
                "means a name's place in this list."
            )
        check_encodable(label, f"The label {label!r}")
        if label.splitlines() != [label]:
            raise ValueError(f"A label is one line of text. Received: {label!r}")
    if len(labels) < fewest:
        needed = "one label" if fewest == 1 else "two labels"
        raise ValueError(f"A classifier needs at least {needed}. Received: {labels}.{advice}")
    twice = sorted({label for label in labels if labels.count(label) > 1})
    if twice:
        raise ValueError(f"Each label must stand once. Twice or more: {', '.join(twice)}")
    return labels


def assertions(known, message: str, values) -> list:
    """Returns operations that fail, in graph, if a value is not known; to be waited for.

    Args:
        known: bool tensor, of the shape of the values.
        message: what the error should say before the values that are not known.
        values: the values.
    """
    check = tf.Assert(tf.reduce_all(known), [message, tf.boolean_mask(values, ~known)])
    return [] if check is None else [check]  # It is None where it has been done at once.


def refuse_loss_name(loss, example: str) -> None:
    """Raises ValueError if a loss is given by its name, which would take the logits amiss."""
    if isinstance(loss, str):
        raise ValueError(
            f"The loss {loss!r}, by its name, takes probabilities, and a classifier gives "
            f"logits: pass an object, such as keras.losses.{example}(from_logits=True)."
        )


def refuse_class_weight(class_weight, instead: str) -> None:
    """Raises ValueError if weights of classes are given where an example has several labels.

    Keras would take the label with the largest number for the only one.
    """
    if class_weight is not None:
        raise ValueError(
            "`class_weight` weighs examples by their one label, and here an example has several: "
            f"{instead}"
        )
