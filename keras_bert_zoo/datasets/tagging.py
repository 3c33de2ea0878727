"""Sentences of tagged words to ids and labels."""

from collections.abc import Iterable, Mapping

import numpy as np

from keras_bert_zoo.datasets.conll import TaggedSentence
from keras_bert_zoo.datasets.pipeline import EncodedExamples
from keras_bert_zoo.tasks.tagging import Tagger


def encode_tagged(
    task: Tagger,
    sentences: Iterable[TaggedSentence],
    label_weights: Mapping[str, float] | None = None,
    label_all_pieces: bool = False,
    stride: int | None = None,
) -> EncodedExamples:
    """Turns sentences into rows to train a task on; long ones into several.

    Each word's label stands in one row, that in which it has most context, at its first piece.

    Args:
        task: a `TokenClassifier` or another task of this kind, with a preprocessor.
        sentences: the sentences, with tags.
        label_weights: how much the tokens of a label count in loss and score, such as
            `{"O": 0.3}`; 1 for a label that is not named.
        label_all_pieces: whether the further pieces of a word are labelled too, as the word is; but
            with `I-` where that is `B-` and there is such a label.
        stride: see `keras_bert_zoo.text.word_rows.word_rows`.

    Returns:
        Examples whose targets are int32 ragged (rows, None), -1 where there is no label; and whose
        weights, if labels have such, are float32 ragged likewise.

    Raises:
        ValueError: if there is no sentence, one has no tags, a tag is none of the task's labels,
            or a weight is of no label or negative.
    """
    sentences = list(sentences)
    for sentence in sentences:
        if sentence.tags is None:
            raise ValueError(f"The sentence of line {sentence.line} has no tags to learn.")
    if not sentences:
        raise ValueError("There are no sentences.")
    words, tags = [s.words for s in sentences], [s.tags for s in sentences]
    unknown = [(s.line, tag) for s in sentences for tag in s.tags if tag not in task.labels]
    if unknown:
        raise ValueError(
            f"The sentence of line {unknown[0][0]} has the tag {unknown[0][1]!r}, and the task's "
            f"labels are: {', '.join(task.labels)}"
        )
    numbers = task.number_tags(words, tags)
    weight_of = _weights(task.labels, label_weights)
    rows = task.encode_words(words, stride)
    rests = _further(task.labels)[numbers] if label_all_pieces else None
    targets = rows.spread(numbers, -1, rests)
    weights = None
    if weight_of is not None:
        weights = rows.ragged(np.where(targets < 0, np.float32(0), weight_of[targets]))
    # Lengths are rounded up, which must not lead past the last position.
    rounded = -(-rows.lengths.max() // 8) * 8
    fits = rounded <= task.encoder.config.max_position_embeddings
    length = task.encoder.sequence_length or (None if fits else task.preprocessor.sequence_length)
    return EncodedExamples(rows.features(), rows.ragged(targets), weights, length)


def _weights(labels, label_weights):
    if label_weights is None:
        return None
    for label, weight in label_weights.items():
        if label not in labels or not 0 <= weight < np.inf:
            raise ValueError(
                "`label_weights` are numbers from 0 on, by labels of the task, which are: "
                f"{', '.join(labels)}. Received: {label!r}: {weight!r}"
            )
    return np.array([label_weights.get(label, 1.0) for label in labels], np.float32)


def _further(labels):
    """By the number of a word's label, that of its further pieces."""
    known = {label: number for number, label in enumerate(labels)}
    return np.array(
        [
            known.get(f"I-{label.removeprefix('B-')}", number) if label.startswith("B-") else number
            for label, number in known.items()
        ],
        np.int32,
    )
