"""Variables that start from given values, not from random ones that are then replaced."""

import contextlib
from collections.abc import Callable, Iterator

import keras


@contextlib.contextmanager
def first_values() -> Iterator[Callable]:
    """Builds models without values; at its end each variable is made, from the value it was given.

    Drawing random values for 110 million weights takes longer than reading a file of them, and
    TensorFlow's allocator keeps the memory that it took. A variable that is given no value starts
    as its layer says.

    Example:

    ```python
    with first_values() as set_first:
        dense = keras.layers.Dense(1)
        dense.build((None, 2))
        set_first(dense.kernel, lambda: np.ones((2, 1), "float32"))
    ```

    Yields:
        A function of a variable of such a model, and of a function that returns its value.

    Raises:
        ValueError: if it is used within a `keras.StatelessScope`, where variables have no values.
    """
    failures = []

    def set_first(variable, value):
        def initializer(shape, dtype):
            # An error must wait: Keras would keep its list of variables to make, with those that
            # are made already, and fail at the end of every later scope.
            if not failures:
                try:
                    return keras.ops.convert_to_tensor(value(), dtype)
                except BaseException as error:
                    failures.append(error)
            return keras.ops.zeros(shape, dtype)

        # Keras has no public way to change it between a variable's declaration and its making.
        variable._initializer = initializer

    with keras.StatelessScope() as scope:
        if scope.original_scope is not None:
            raise ValueError(
                "Weights cannot be loaded within a `keras.StatelessScope`, as when Keras finds out "
                "the shape of a layer's output: build the model before that layer is called."
            )
        yield set_first
    if failures:
        raise failures[0]
