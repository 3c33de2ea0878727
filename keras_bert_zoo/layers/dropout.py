"""Dropout that draws another mask on each replica, and draws it fast."""

import keras
import tensorflow as tf


@keras.saving.register_keras_serializable(package="keras_bert_zoo")
class Dropout(keras.layers.Dropout):
    """`keras.layers.Dropout`, but with a mask of its own on each replica of a strategy.

    Keras draws from one seed state that `tf.distribute` mirrors, so all replicas would drop the
    same places of their part of the batch. The replica's number is mixed into the seed; on the
    first replica, and without a strategy, nothing changes.

    A place takes 16 random bits, so the rate is rounded to a multiple of 2^-16, and the kept places
    are scaled by that. Keras takes a float, which costs twice the time, and rounds to 2^-7 where
    that is a bfloat16.
    """

    def call(self, inputs, training=False):
        if not training or self.rate == 0:
            return inputs
        seed = self.seed_generator.next()
        context = tf.distribute.get_replica_context()
        if context is not None:
            replica = tf.cast(context.replica_id_in_sync_group, seed.dtype)
            # An odd constant, so that neighbouring replicas differ in many bits of the seed.
            seed = seed + replica * tf.constant([0, 0x9E3779B1], seed.dtype)
        sizes = tf.shape(inputs)
        if self.noise_shape is not None:
            sizes = [sizes[i] if n is None else n for i, n in enumerate(self.noise_shape)]
        # Short of all, so that the scale is finite, also as a float16.
        dropped = min(round(self.rate * 2**16), 2**16 - 2)
        scale = 2**16 / (2**16 - dropped) if self.rate < 1 else 0.0
        scaled = inputs * tf.constant(scale, inputs.dtype)
        return tf.where(_kept(sizes, dropped, seed), scaled, tf.zeros([], inputs.dtype))

    def save_own_variables(self, store):
        if self.rate > 0:
            store["seed_state"] = keras.ops.convert_to_numpy(self.seed_generator.state)

    def load_own_variables(self, store):
        if self.rate > 0 and "seed_state" in store.keys():  # noqa: SIM118 (a store is no dict)
            self.seed_generator.state.assign(store["seed_state"])


def _kept(sizes, dropped, seed):
    """Draws which places are kept, all but `dropped` of 2^16: bool, of the sizes."""
    count = tf.reduce_prod(tf.cast(sizes, tf.int64))
    words = tf.random.stateless_uniform([(count + 1) // 2], seed, None, None, tf.int32)
    halves = tf.reshape(tf.bitcast(words, tf.uint16), [-1])[:count]
    return tf.reshape(halves, sizes) >= tf.constant(dropped, tf.uint16)
