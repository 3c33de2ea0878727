"""Dropout that draws another mask on each replica."""

import keras
import tensorflow as tf


@keras.saving.register_keras_serializable(package="keras_bert_zoo")
class Dropout(keras.layers.Dropout):
    """`keras.layers.Dropout`, but with a mask of its own on each replica of a strategy.

    Keras draws from one seed state that `tf.distribute` mirrors, so all replicas would drop the
    same places of their part of the batch. The replica's number is mixed into the seed; on the
    first replica, and without a strategy, nothing changes.
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
        return tf.nn.experimental.stateless_dropout(
            inputs, self.rate, seed=seed, noise_shape=self.noise_shape
        )

    def save_own_variables(self, store):
        if self.rate > 0:
            store["seed_state"] = keras.ops.convert_to_numpy(self.seed_generator.state)

    def load_own_variables(self, store):
        if self.rate > 0 and "seed_state" in store.keys():  # noqa: SIM118 (a store is no dict)
            self.seed_generator.state.assign(store["seed_state"])
