"""The choices of each example as rows of one batch, and back."""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="keras_bert_zoo")
class FoldChoices(keras.layers.Layer):
    """Makes a row of each choice: (B, C, L) to (B * C, L).

    Call arguments:
        inputs: tensor (B, C, L).
    """

    def call(self, inputs):
        length = inputs.shape[2] if inputs.shape[2] is not None else ops.shape(inputs)[2]
        return ops.reshape(inputs, (-1, length))

    def compute_output_shape(self, inputs_shape):
        return (None, inputs_shape[2])


@keras.saving.register_keras_serializable(package="keras_bert_zoo")
class UnfoldChoices(keras.layers.Layer):
    """Puts the numbers of choices back to their examples: (B * C, 1) to (B, C).

    Call arguments:
        numbers: tensor (B * C, 1).
        like: tensor (B, C, L), which `FoldChoices` took.
    """

    def call(self, numbers, like):
        return ops.reshape(numbers, ops.shape(like)[:2])

    def compute_output_shape(self, numbers_shape, like_shape):
        return like_shape[:2]
