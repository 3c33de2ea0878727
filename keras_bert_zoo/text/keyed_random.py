"""Random numbers that are pure functions of (seed, epoch, example, stream, position).

Nothing here has a state, so a batch of any size, a parallel map and a resumed run all see the same
numbers. The generator is SplitMix64 (Steele, Lea and Flood 2014, "Fast splittable pseudorandom
number generators"): the key is folded in one number at a time, and positions count on from it.
"""

import tensorflow as tf

_GOLDEN = 0x9E3779B97F4A7C15
# The public tf.random.experimental.index_shuffle makes 4 rounds of its cipher, after which
# neighbouring seeds give visibly similar orders; from 8 on no test told them from chance.
_ROUNDS = 16


def keyed_integers(seed: int, epoch, example, stream: int, count: int) -> tf.Tensor:
    """Draws integers, uniform over 0 to 2**63 - 1.

    Args:
        seed: any Python integer.
        epoch: int64 scalar or (B,).
        example: int64 (B,), the index of each row's example.
        stream: tells apart draws of the same row for different ends.
        count: how many a row.

    Returns:
        int64 (B, count). Take a remainder for a smaller range: its bias is below range / 2**63.
    """
    return tf.cast(
        tf.bitwise.right_shift(_bits(seed, epoch, example, stream, count), _u(1)), "int64"
    )


def keyed_uniform(seed: int, epoch, example, stream: int, count: int) -> tf.Tensor:
    """Draws float32 (B, count), uniform over [0, 1); arguments as for `keyed_integers`."""
    bits = tf.bitwise.right_shift(_bits(seed, epoch, example, stream, count), _u(40))
    return tf.cast(bits, tf.float32) * 2.0**-24


def keyed_permutation(seed: int, epoch, index, stream: int, size: int) -> tf.Tensor:
    """Where each index goes in the permutation of range(size) that (seed, epoch, stream) names.

    Args:
        seed, stream: as for `keyed_integers`.
        epoch: int64 scalar or (B,).
        index: int64 (B,), each from 0 to size - 1.
        size: how many are permuted.

    Returns:
        int64 (B,). Its cost is that of the rows asked for, not of `size`.
    """
    # Hashed, as the cipher takes similar keys to similar orders.
    epoch = tf.broadcast_to(tf.cast(epoch, tf.int64), tf.shape(index))
    key = keyed_integers(seed, epoch, tf.zeros_like(index), stream, 3)
    return tf.raw_ops.RandomIndexShuffle(
        index=index, seed=key, max_index=tf.cast(size, tf.int64) - 1, rounds=_ROUNDS
    )


def pass_key(seed: int) -> tf.data.Dataset:
    """An endless dataset of one int64: 0 in its first pass, another number in each later one.

    Added to an epoch's number, it makes a dataset that is gone through again, as `fit` does in
    each of its epochs, draw anew; the first pass is the same in every run.
    """
    keys = tf.data.Dataset.random(seed, rerandomize_each_iteration=True).take(1)
    first = next(iter(tf.data.Dataset.random(seed, rerandomize_each_iteration=True)))

    def repeat(key):
        # Far from the numbers that epochs have themselves.
        key = tf.where(key == first, tf.constant(0, tf.int64), key * 2**24)
        return tf.data.Dataset.from_tensors(key).repeat()

    endless = tf.data.experimental.assert_cardinality(tf.data.INFINITE_CARDINALITY)
    return keys.flat_map(repeat).apply(endless)


def _bits(seed, epoch, example, stream, count):
    key = _mix(tf.fill(tf.shape(example), _u(seed)))
    for part in (epoch, example, _u(stream)):
        key = _mix(key + _u(_GOLDEN) * (tf.cast(part, tf.uint64) + _u(1)))
    steps = tf.cast(tf.range(1, count + 1), tf.uint64) * _u(_GOLDEN)
    return _mix(key[:, tf.newaxis] + steps)


def _mix(bits):
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        bits = tf.bitwise.bitwise_xor(bits, tf.bitwise.right_shift(bits, _u(shift))) * _u(factor)
    return tf.bitwise.bitwise_xor(bits, tf.bitwise.right_shift(bits, _u(31)))


def _u(value):
    return tf.constant(value % 2**64, tf.uint64)
