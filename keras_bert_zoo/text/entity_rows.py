"""Texts with two entities to the rows of an encoder: markers, masks and windows, in graph."""

from collections.abc import Sequence

import tensorflow as tf

from keras_bert_zoo.text.packing import Packer

SPANS = ("entity_1_start", "entity_1_end", "entity_2_start", "entity_2_end")
MASKS = ("entity_1_mask", "entity_2_mask")
_FAR = 2**30


def entity_rows(
    tokenizer,
    texts,
    spans: Sequence,
    markers: tuple[str, str] | None,
    sequence_length: int,
    padding: str = "max_length",
) -> dict:
    """Tokenizes and packs texts, tells which pieces are those of two entities, and marks them.

    A marker, one word, is put before and behind each entity. Without markers the text is split
    there all the same, so that no piece reaches across the edge of an entity.

    A text that is too long is cut around its entities: if all from the one to the other fits, that
    is kept, with as much on either side; else the pieces nearest to either of them.

    Args:
        tokenizer: a `WordPieceTokenizer`.
        texts: strings (B,).
        spans: starts and ends of entity 1 and entity 2 in characters, four int tensors (B,).
        markers: the words around entity 1 and around entity 2, or `None`.
        sequence_length: most tokens of a row, `[CLS]` and `[SEP]` included.
        padding: as `Packer` takes it.

    Returns:
        A dict of int32 (B, L): `token_ids`, `segment_ids`, `padding_mask`; and `entity_1_mask` and
        `entity_2_mask`, 1 at the pieces of the entity, the markers left out.

    Raises:
        ValueError: if spans are not two entities of their text, an entity has no pieces, or both
            together have too many; in graph it is `tf.errors.InvalidArgumentError`.
    """
    texts = tf.strings.unicode_transcode(tf.reshape(texts, [-1]), "UTF-8", "UTF-8")
    starts_1, ends_1, starts_2, ends_2 = (tf.cast(tf.reshape(s, [-1]), tf.int32) for s in spans)
    is_second = starts_2 < starts_1  # Whether entity 2 comes first.
    early, late = (
        (tf.where(is_second, a, b), tf.where(is_second, c, d))
        for a, b, c, d in (
            (starts_2, starts_1, ends_2, ends_1),
            (starts_1, starts_2, ends_1, ends_2),
        )
    )
    with tf.control_dependencies(_checks(texts, early, late)):
        texts = tf.identity(texts)
    words = [f" {word} " for word in markers] if markers else [" ", " "]
    width = len(words[0])
    early_word = tf.where(is_second, words[1], words[0])
    late_word = tf.where(is_second, words[0], words[1])
    marked = tf.strings.join(
        [
            _part(texts, 0, early[0]),
            early_word,
            _part(texts, *early),
            early_word,
            _part(texts, early[1], late[0]),
            late_word,
            _part(texts, *late),
            late_word,
            _part(texts, late[1], tf.strings.length(texts, unit="UTF8_CHAR")),
        ]
    )
    early = [place + width for place in early]
    late = [place + 3 * width for place in late]
    pieces = tokenizer.tokenize_with_spans(marked)
    places = pieces.char_starts.to_tensor(_FAR)
    ids = pieces.token_ids.to_tensor(0)
    insides = [_between(places, *early), _between(places, *late)]
    wholes = [_between(places, span[0] - width, span[1] + width) for span in (early, late)]
    if not markers:
        wholes = insides
    budget = sequence_length - 2
    kept, lengths = _window(wholes, pieces.token_ids.row_lengths(), budget)
    checks = [
        *_assert(
            tf.reduce_any(insides[0], 1) & tf.reduce_any(insides[1], 1),
            "An entity has no tokens, as the tokenizer drops all of its characters. The text is",
            texts,
        ),
        *_assert(
            _count(wholes[0] | wholes[1]) <= budget,
            f"The two entities do not fit into {sequence_length} tokens (`sequence_length`). The "
            "text is",
            texts,
        ),
    ]
    with tf.control_dependencies(checks):
        ids = tf.identity(ids)

    def pack(values, cls_id, sep_id, pad_id):
        rows = tf.gather(values, kept, batch_dims=1)
        rows = tf.RaggedTensor.from_tensor(rows, lengths)
        return Packer(sequence_length, cls_id, sep_id, pad_id, padding)(rows)

    packed = pack(ids, tokenizer.cls_id, tokenizer.sep_id, tokenizer.pad_id)
    for name, first, second in zip(MASKS, insides, reversed(insides), strict=True):
        inside = tf.where(is_second[:, tf.newaxis], second, first)
        packed[name] = pack(tf.cast(inside, tf.int32), 0, 0, 0)["token_ids"]
    return packed


def _window(wholes, lengths, budget):
    """The places of the pieces that are kept, in order, (B, at most budget); and their number."""
    size = tf.shape(wholes[0])[1]
    place = tf.range(size)[tf.newaxis, :]
    bounds = []
    for whole in wholes:
        first = tf.reduce_min(tf.where(whole, place, _FAR), axis=1, keepdims=True)
        bounds.append((first, first + _count(whole)[:, tf.newaxis]))
    distances = [
        tf.maximum(tf.maximum(first - place, place - last + 1), 0)
        for first, last in (*bounds, (bounds[0][0], bounds[1][1]))
    ]
    fits = bounds[1][1] - bounds[0][0] <= budget
    distance = tf.where(fits, distances[2], tf.minimum(distances[0], distances[1]))
    lengths = tf.cast(lengths, tf.int32)
    distance = tf.where(place < lengths[:, tf.newaxis], distance, _FAR)
    nearest = tf.argsort(distance, axis=1, stable=True)[:, :budget]
    return tf.sort(nearest, axis=1), tf.minimum(lengths, budget)


def _checks(texts, early, late):
    size = tf.strings.length(texts, unit="UTF8_CHAR")
    are_spans = (early[0] >= 0) & (early[0] < early[1]) & (late[0] < late[1]) & (late[1] <= size)
    return [
        *_assert(
            are_spans, "An entity must be characters of its text, start < end. The text is", texts
        ),
        *_assert(early[1] <= late[0], "The two entities overlap. The text is", texts),
    ]


def _assert(known, message, texts):
    wrong = tf.boolean_mask(texts, ~known)
    if tf.executing_eagerly():
        if len(wrong):
            raise ValueError(f"{message}: {wrong[0].numpy().decode()!r:.300}")
        return []
    return [tf.Assert(tf.reduce_all(known), [message + ":", wrong])]


def _between(places, start, end):
    return (places >= start[:, tf.newaxis]) & (places < end[:, tf.newaxis])


def _count(mask):
    return tf.reduce_sum(tf.cast(mask, tf.int32), axis=1)


def _part(texts, start, end):
    start = tf.zeros_like(end) + start
    return tf.strings.substr(texts, start, end - start, unit="UTF8_CHAR")
