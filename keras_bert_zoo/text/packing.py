"""One or two token sequences to the three inputs of an encoder, with plain TensorFlow ops."""

import keras
import tensorflow as tf

_PADDINGS = ("max_length", "longest")


def check_sequence_length(sequence_length: int, texts: int) -> None:
    """Raises a ValueError if a length cannot hold the special tokens of one or two texts."""
    needed = 2 if texts == 1 else 3
    if sequence_length < needed:
        raise ValueError(
            f"sequence_length must be at least {needed} to hold the special tokens of "
            f"{'a text' if texts == 1 else 'a pair of texts'}, received {sequence_length}."
        )


def truncated_lengths(first, second, budget):
    """Lengths that are left of pairs of sequences after longest-first truncation.

    Taking one token at a time off the longer sequence, off the second when they are equally long,
    until both fit (Devlin et al. 2019, `_truncate_seq_pair`), ends at these lengths.

    Args:
        first: int lengths (B,) of the first sequences.
        second: int lengths (B,) of the second ones.
        budget: how many tokens a pair may have.
    """
    second_share = budget // 2
    first_share = budget - second_share
    return (
        tf.minimum(first, tf.maximum(first_share, budget - second)),
        tf.minimum(second, tf.maximum(second_share, budget - first)),
    )


@keras.saving.register_keras_serializable(package="keras_bert_zoo")
class Packer(keras.layers.Layer):
    """Packs token ids as `[CLS] A [SEP]` or `[CLS] A [SEP] B [SEP]`, truncated and padded.

    Segment ids are 0 through the first `[SEP]`, 1 for `B [SEP]`, and 0 for padding. A text that is
    too long loses tokens at its end; of a pair, the longer one loses them, see
    `truncated_lengths`.

    Args:
        sequence_length: most tokens of a row, special tokens included.
        cls_id: id of `[CLS]`.
        sep_id: id of `[SEP]`.
        pad_id: id of `[PAD]`.
        padding: `"max_length"` pads every row to `sequence_length`, `"longest"` to the longest row
            of the batch.

    Raises:
        ValueError: if `sequence_length` cannot hold the special tokens (2 for a text, 3 for a pair,
            where the latter is told by the first call with a pair), or `padding` is unknown.
    """

    def __init__(
        self,
        sequence_length: int,
        cls_id: int,
        sep_id: int,
        pad_id: int = 0,
        padding: str = "max_length",
        **kwargs,
    ):
        super().__init__(**kwargs)
        check_sequence_length(sequence_length, texts=1)
        if padding not in _PADDINGS:
            raise ValueError(f"padding must be one of {_PADDINGS}, received {padding!r}.")
        self.sequence_length = int(sequence_length)
        self.cls_id = int(cls_id)
        self.sep_id = int(sep_id)
        self.pad_id = int(pad_id)
        self.padding = padding
        self.supports_jit = False
        self.built = True

    def __call__(self, first, second=None, **kwargs):
        # Keras would turn lists of unequal lists into arrays, which they are not.
        first, second = _as_tokens(first), None if second is None else _as_tokens(second)
        return super().__call__(first, second, **kwargs)

    def call(self, first, second=None):
        """Packs sequences.

        Args:
            first: int ids of the first texts: ragged (B, None), dense (B, n) where all n are real
                tokens, or (n,) for one text.
            second: ids of the second texts, likewise, or None.

        Returns:
            A dict of int32 tensors (B, L), or (L,) for one text: `token_ids`, `segment_ids` (0 or
            1), and `padding_mask` (1 for real tokens).
        """
        if second is not None:
            check_sequence_length(self.sequence_length, texts=2)
        single = first.shape.rank == 1
        values, starts, lengths = _rows(first)
        # Where the two separators stand; without a second text both are the same.
        if second is None:
            lengths = tf.minimum(lengths, self.sequence_length - 2)
            separator = final = lengths + 1
        else:
            second_values, second_starts, second_lengths = _rows(second)
            tf.debugging.assert_equal(
                tf.size(lengths), tf.size(second_lengths), "There must be one second text a first."
            )
            lengths, second_lengths = truncated_lengths(
                lengths, second_lengths, self.sequence_length - 3
            )
            separator = lengths + 1
            final = separator + second_lengths + 1
        width = self.sequence_length
        if self.padding == "longest":
            width = tf.reduce_max(tf.concat([final + 1, [2]], 0))
        place = tf.range(width)[tf.newaxis, :]
        separator, final = separator[:, tf.newaxis], final[:, tf.newaxis]

        token_ids = _take(values, starts[:, tf.newaxis] + place - 1, place < separator)
        if second is not None:
            index = second_starts[:, tf.newaxis] + place - separator - 1
            taken = _take(second_values, index, (place > separator) & (place < final))
            token_ids = tf.where(place > separator, taken, token_ids)
        token_ids = tf.where(place == 0, self.cls_id, token_ids)
        token_ids = tf.where((place == separator) | (place == final), self.sep_id, token_ids)
        packed = {
            "token_ids": tf.where(place > final, self.pad_id, token_ids),
            "segment_ids": tf.cast((place > separator) & (place <= final), tf.int32),
            "padding_mask": tf.cast(place <= final, tf.int32),
        }
        if single:
            packed = {name: tensor[0] for name, tensor in packed.items()}
        return packed

    def compute_output_spec(self, first, second=None):
        if second is not None:
            check_sequence_length(self.sequence_length, texts=2)
        width = self.sequence_length if self.padding == "max_length" else None
        return packed_spec((*first.shape[:-1], width))

    def get_config(self) -> dict:
        return {
            **super().get_config(),
            "sequence_length": self.sequence_length,
            "cls_id": self.cls_id,
            "sep_id": self.sep_id,
            "pad_id": self.pad_id,
            "padding": self.padding,
        }


def packed_spec(shape: tuple) -> dict[str, keras.KerasTensor]:
    """Symbolic outputs of packing, of the given shape."""
    names = ("token_ids", "segment_ids", "padding_mask")
    return {name: keras.KerasTensor(shape, dtype="int32") for name in names}


def _as_tokens(tokens):
    if isinstance(tokens, keras.KerasTensor):
        return tokens
    if not tf.is_tensor(tokens):
        tokens = tf.ragged.constant(tokens, dtype=tf.int32)
    rank = tokens.shape.rank
    if not tokens.dtype.is_integer or rank not in (1, 2):
        raise ValueError(
            "Packer takes integer ids of shape (batch, tokens) or (tokens,), received "
            f"{tokens.dtype.name} of shape {tokens.shape}."
        )
    return tf.cast(tokens, tf.int32)


def _rows(tokens):
    """Flat ids, and where each row starts and how long it is."""
    if isinstance(tokens, tf.RaggedTensor):
        splits = tf.cast(tokens.row_splits, tf.int32)
        return tokens.values, splits[:-1], splits[1:] - splits[:-1]
    if tokens.shape.rank == 1:
        tokens = tokens[tf.newaxis, :]
    rows, width = tf.unstack(tf.shape(tokens))
    return tf.reshape(tokens, [-1]), tf.range(rows) * width, tf.fill([rows], width)


def _take(values, index, wanted):
    """Gathers where wanted, and something where not."""
    values = tf.concat([values, tf.zeros([1], values.dtype)], 0)
    return tf.gather(values, tf.where(wanted & (index >= 0), index, tf.size(values) - 1))
