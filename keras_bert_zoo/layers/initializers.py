"""BERT's initial values, and building a model without them where others will follow."""

import contextlib
import contextvars
from collections.abc import Iterator

import keras

_IS_DRAWN = contextvars.ContextVar("is_drawn", default=True)


@keras.saving.register_keras_serializable(package="keras_bert_zoo")
class TruncatedNormal(keras.initializers.TruncatedNormal):
    """Draws from a normal distribution that is cut off at two standard deviations.

    Keras's own, but that it gives zeros within `undrawn`.

    Args:
        stddev: standard deviation (`initializer_range`).
    """

    def __init__(self, stddev: float = 0.02):
        super().__init__(stddev=stddev)

    def __call__(self, shape, dtype=None):
        if not _IS_DRAWN.get():
            return keras.ops.zeros(shape, dtype)
        return super().__call__(shape, dtype)

    def get_config(self):
        return {"stddev": self.stddev}


@contextlib.contextmanager
def undrawn() -> Iterator[None]:
    """Makes every `TruncatedNormal` within give zeros, for a model whose values follow.

    To draw those of bert_base takes two seconds, and memory that TensorFlow keeps.
    """
    token = _IS_DRAWN.set(False)
    try:
        yield
    finally:
        _IS_DRAWN.reset(token)
