"""A learnt mean of the states of several layers."""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="keras_bert_zoo")
class ScalarMix(keras.layers.Layer):
    """`gamma * sum_k softmax(s)_k h_k` (ELMo, arXiv 1802.05365, equation 1).

    The scores `s` start at 0 and the scale `gamma` at 1, which is the plain mean.

    Call arguments:
        states: a list of one or more float tensors of one shape, such as (B, L, H).

    Returns:
        A float tensor of that shape.
    """

    def build(self, states_shape):
        self.scores = self.add_weight(
            shape=(len(states_shape),), initializer="zeros", name="scores"
        )
        self.gamma = self.add_weight(shape=(), initializer="ones", name="gamma")

    def call(self, states):
        scores = ops.cast(self.scores, "float32")
        # A softmax, of which Keras would warn where there is one state.
        shares = ops.exp(scores - ops.logsumexp(scores)) * ops.cast(self.gamma, "float32")
        shares = ops.cast(shares, states[0].dtype)
        return sum(shares[place] * state for place, state in enumerate(states))

    def compute_output_shape(self, states_shape):
        return states_shape[0]
