"""A tiny task of each head, with ids and targets for it, that tests share."""

import numpy as np
from tiny import VOCABULARY, tiny_encoder, tiny_preprocessor

import keras_bert_zoo as kbz

LABELS = ["O", "PLACE", "THING"]
TRAINED = ("next_sentence", "multi_label", "token", "question", "choice")
HEADS = (*TRAINED, "embedder")
LENGTH, CHOICES = 12, 3


def tiny_head(head, encoder=None, **settings):
    """A task with a preprocessor.

    Args:
        head: one of `HEADS`.
        encoder: another encoder than the tiny one.
        **settings: of the task.
    """
    encoder = tiny_encoder() if encoder is None else encoder
    settings = {"preprocessor": tiny_preprocessor(LENGTH)} | settings
    if head == "next_sentence":
        return kbz.NextSentence(encoder, **settings)
    if head == "multi_label":
        return kbz.MultiLabelClassifier(encoder, **({"labels": LABELS} | settings))
    if head == "token":
        return kbz.TokenClassifier(encoder, **({"labels": LABELS} | settings))
    if head == "question":
        return kbz.QuestionAnswering(encoder, **settings)
    if head == "choice":
        return kbz.MultipleChoice(encoder, **settings)
    return kbz.TextEmbedder(encoder, **settings)


def texts_for(name):
    """Three texts, in the form that the task takes."""
    singles = ["good tea", "what a bad film !", ""]
    if name in ("next_sentence", "question"):
        return singles, ["paris is fine .", "the capital of france", "a cup"]
    if name == "choice":
        return {"text_a": singles, "text_b": [["tea", "a cup"], ["film", "", "bad"], ["paris"]]}
    return singles


def batch_for(name, rows=8, seed=0):
    """Ids and targets of pairs of unequal lengths, of which unequally many take part."""
    random = np.random.default_rng(seed)
    shape = (rows, CHOICES, LENGTH) if name == "choice" else (rows, LENGTH)
    ids = random.integers(5, len(VOCABULARY), shape).astype("int32")
    place = np.arange(LENGTH)
    first = random.integers(2, 5, shape[:-1])[..., None]
    total = random.integers(6, LENGTH + 1, shape[:-1])[..., None]
    mask = np.broadcast_to(place < total, shape).astype("int32")
    x = {
        "token_ids": ids * mask,
        "segment_ids": ((place >= first) & (place < total)).astype("int32"),
        "padding_mask": mask,
    }
    if name == "next_sentence":
        return x, random.integers(0, 2, rows)
    if name == "multi_label":
        return x, random.integers(0, 2, (rows, len(LABELS))).astype("float32")
    if name == "token":
        y = random.integers(0, len(LABELS), shape)
        # Many labels in the first rows, few in the others, none in the last.
        return x, np.where(place < np.arange(LENGTH, LENGTH - 2 * rows, -2)[:, None], y, -1)
    if name == "question":
        y = {k: random.integers(0, total[:, 0]) for k in ("start_positions", "end_positions")}
        y["start_positions"][rows // 2 + 1 :] = -1
        return x, y
    x["padding_mask"][rows // 2 :, -1] = 0
    return x, random.integers(0, CHOICES - 1, rows)
