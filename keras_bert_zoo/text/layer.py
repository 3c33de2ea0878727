"""What every layer that reads strings shares: the inputs it accepts and how they become tensors."""

import keras
import tensorflow as tf


def as_strings(texts, what: str = "texts"):
    """Turns one text or a batch of texts into a string tensor.

    Args:
        texts: a `str` or `bytes`, a list or tuple of them, a numpy array (`object`, `<U` or `S`), a
            string tensor of rank 0 or 1, or a symbolic Keras input of that kind.
        what: how an error should call `texts`.

    Returns:
        A `tf.string` tensor of shape () or (B,); a symbolic Keras input comes back as it is.

    Raises:
        ValueError: if `texts` is no string, or has more than one dimension, or an unknown rank.
    """
    if isinstance(texts, keras.KerasTensor) or tf.is_tensor(texts):
        strings = texts
    else:
        try:
            strings = tf.convert_to_tensor(texts, dtype=tf.string)
        except (TypeError, ValueError) as error:
            for text in tf.nest.flatten(texts):
                if isinstance(text, str):
                    check_encodable(text, f"One of the {what}")
            raise ValueError(
                f"{what} must be one text or a flat batch of texts, received "
                f"{type(texts).__name__}: {texts!r:.200}. Pass a str, a list of str, a numpy array "
                "of str, or a string tensor of rank 0 or 1."
            ) from error
    if isinstance(strings, (tf.RaggedTensor, tf.SparseTensor)):
        raise ValueError(
            f"{what} must be a dense string tensor, received {type(strings).__name__}. "
            "Pass its flat values."
        )
    dtype = keras.backend.standardize_dtype(strings.dtype)
    if dtype != "string":
        raise ValueError(f"{what} must be strings, received dtype {dtype}, shape {strings.shape}.")
    rank = tf.TensorShape(strings.shape).rank
    if rank is None or rank > 1:
        raise ValueError(
            f"{what} must be a scalar or of shape (batch,), received shape {strings.shape}. "
            "Flatten it, e.g. with tf.reshape(x, [-1])."
        )
    return strings


def check_encodable(text: str, what: str) -> None:
    """Raises ValueError if a text holds a lone surrogate, which UTF-8 has no bytes for."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{what} holds half a surrogate pair at character {error.start}: {text!r:.200}. It was "
            "decoded wrongly; text.encode('utf-8', 'replace').decode() takes it out."
        ) from error


class TextLayer(keras.layers.Layer):
    """A Keras layer whose inputs are strings and whose outputs are int32 ids.

    It has no weights and cannot run under XLA (`supports_jit` is False). Its `call` sees string
    tensors of rank 0 or 1 only, whatever the caller passed. Subclasses give an explicit
    `compute_output_spec`, so that a functional model is wired without running any text operation:
    when a saved model is loaded, the vocabulary arrives after the wiring.
    """

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_jit = False
        self.built = True

    def __call__(self, inputs, **kwargs):
        return super().__call__(self.convert_inputs(inputs), **kwargs)

    def convert_inputs(self, inputs):
        """Turns whatever the caller passed into what `call` reads."""
        return as_strings(inputs)
