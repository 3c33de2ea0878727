"""Texts and labels, in the forms people have them, as batched `tf.data`."""

import numpy as np
import tensorflow as tf

from keras_bert_zoo.text.layer import check_encodable

DEFAULT_BATCH_SIZE = 32


def holds_text(data) -> bool:
    """Whether any leaf of a nested structure, or of a dataset's elements, is text.

    Args:
        data: a `tf.data.Dataset`, or a structure of strings, lists, arrays and tensors.
    """
    if isinstance(data, tf.data.Dataset):
        data = data.element_spec
    if isinstance(data, dict):
        return any(holds_text(value) for value in data.values())
    if isinstance(data, (list, tuple)):
        return any(holds_text(value) for value in data)
    if isinstance(getattr(data, "dtype", None), tf.DType):
        return data.dtype == tf.string
    if hasattr(data, "dtype"):
        kind = np.asarray(data).dtype.kind
        return kind in "US" or (kind == "O" and np.size(data) > 0 and holds_text(list(data)))
    return isinstance(data, (str, bytes))


def inputs_of(x):
    """Returns the inputs' part of data: of a dataset the specs of it, else `x` itself."""
    if not isinstance(x, tf.data.Dataset):
        return x
    return x.element_spec[0] if isinstance(x.element_spec, tuple) else x.element_spec


def steady(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Leaves out what tunes a dataset while it is read, unless its options ask for it.

    The thread that does so sleeps for up to a minute at a time, and now and then the end of an
    iteration waits until it wakes (TensorFlow 2.21). The parallelism is then the number of threads.
    """
    if dataset.options().autotune.enabled is not None:
        return dataset
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)


def holds_pairs(inputs) -> bool:
    """Whether the inputs' specs of a dataset of texts are those of pairs."""
    return isinstance(inputs, tuple) or (isinstance(inputs, dict) and len(inputs) == 2)


def text_columns(x):
    """Puts texts into the form a preprocessor takes, as numpy or tensor columns of equal length.

    Args:
        x: a string, a list or array of strings; a list of pairs of strings; a tuple of two lists;
            or a dict of such columns.

    Returns:
        A string column (B,), a tuple of two, or a dict of them.

    Raises:
        ValueError: if columns differ in length, or an item is neither a string nor a pair.
    """
    if isinstance(x, dict):
        columns = {name: _column(value, name) for name, value in x.items()}
    elif isinstance(x, tuple):
        if len(x) != 2:
            raise ValueError(
                f"A tuple is a pair (texts_a, texts_b), and this one has {len(x)} parts. Single "
                "texts come as a list."
            )
        columns = tuple(_column(value, "text") for value in x)
    elif isinstance(x, list) and x and isinstance(x[0], (tuple, list)):
        for number, item in enumerate(x):
            if not isinstance(item, (tuple, list)) or len(item) != 2:
                raise ValueError(
                    "A list of pairs must hold pairs of two texts alone. Item "
                    f"{number} is: {item!r}"
                )
        columns = tuple(_column(list(side), "text") for side in zip(*x, strict=True))
    else:
        columns = _column(x, "text")
    lengths = {len(column) for column in tf.nest.flatten(columns)}
    if len(lengths) > 1:
        raise ValueError(f"The texts of a pair must be equally many. Received: {sorted(lengths)}")
    return columns


def _column(value, name):
    if isinstance(value, (str, bytes)):
        value = [value]
    if tf.is_tensor(value):
        value = value.numpy()
    column = np.asarray(value, dtype=object)
    if column.ndim == 0:
        column = column[None]
    for number, item in enumerate(column.ravel()):
        if not isinstance(item, (str, bytes)):
            raise ValueError(
                f"`{name}` must hold strings. Item {number} is {item!r} ({type(item).__name__})."
            )
        if isinstance(item, str) and not item.isascii():
            check_encodable(item, f"Item {number} of `{name}`")
    if column.ndim != 1:
        raise ValueError(f"`{name}` must be one column of texts. Received shape: {column.shape}")
    # tf.data slices arrays of bytes or str objects as string tensors.
    return column if len(column) else np.zeros([0], dtype="S1")


def text_dataset(x, y=None, sample_weight=None, batch_size=None, shuffle=False, seed=None):
    """Makes a batched dataset of raw examples, still in text.

    Args:
        x: texts as `text_columns` takes them, ids as arrays, or a `tf.data.Dataset` of `x`,
            `(x, y)` or `(x, y, sample_weight)`, batched or not.
        y: labels, one an example; not with a dataset.
        sample_weight: weights, one an example; not with a dataset.
        batch_size: examples a batch, 32 by default; a batched dataset keeps its batches.
        shuffle: whether to draw a new order for each pass over given columns.
        seed: seed of that order.

    Returns:
        A `tf.data.Dataset` of batches, each a tuple of one to three parts.

    Raises:
        ValueError: if the columns differ in length or `y` comes with a dataset.
    """
    if isinstance(x, tf.data.Dataset):
        if y is not None or sample_weight is not None:
            raise ValueError(
                "A dataset brings its labels and weights itself: leave out `y` and `sample_weight`."
            )
        ranks = {spec.shape.rank for spec in tf.nest.flatten(inputs_of(x))}
        if ranks == {0}:
            return _tupled(x).batch(batch_size or DEFAULT_BATCH_SIZE)
        rest = tf.nest.flatten(x.element_spec[1:]) if isinstance(x.element_spec, tuple) else []
        if any(spec.shape.rank == 0 for spec in rest):
            raise ValueError(
                f"The texts of an element have the ranks {sorted(ranks)}, and its labels are "
                "single. Pairs are tuples, ((text_a, text_b), label), not rows of two."
            )
        if batch_size is not None:
            raise ValueError("The dataset is already batched: leave out `batch_size`.")
        return _tupled(x)
    if batch_size is not None and batch_size < 1:
        raise ValueError(f"`batch_size` must be at least 1. Received: {batch_size}")
    if holds_text(x) or isinstance(x, list):
        parts = [text_columns(x)]
    else:
        parts = [tf.nest.map_structure(np.asarray, x)]
    count = len(tf.nest.flatten(parts[0])[0])
    for name, part in (("y", y), ("sample_weight", sample_weight)):
        if part is None:
            if name == "y" and sample_weight is not None:
                raise ValueError("`sample_weight` needs `y`.")
            continue
        part = np.asarray(part)
        if part.dtype.kind in "US":
            part = part.astype(object)
        if len(part) != count:
            raise ValueError(f"There are {count} inputs, but `{name}` has {len(part)} entries.")
        parts.append(part)
    dataset = tf.data.Dataset.from_tensor_slices(tuple(parts))
    if shuffle:
        dataset = dataset.shuffle(max(count, 1), seed=seed)
    return dataset.batch(batch_size or DEFAULT_BATCH_SIZE)


def split_columns(x, y, sample_weight, share):
    """Cuts given columns in two, the last `share` of them being the second part.

    Returns:
        `(x, y, sample_weight), (x, y, sample_weight)`.

    Raises:
        ValueError: if `x` is a dataset or the share is not in (0, 1).
    """
    if isinstance(x, tf.data.Dataset) or not 0 < share < 1:
        raise ValueError(
            "`validation_split` is a share in (0, 1) of given columns, not of a dataset. "
            f"Received: {share} of a {type(x).__name__}"
        )
    columns = text_columns(x) if holds_text(x) else tf.nest.map_structure(np.asarray, x)
    parts = (columns, *(None if p is None else np.asarray(p) for p in (y, sample_weight)))
    count = len(tf.nest.flatten(parts[0])[0])
    first = count - int(count * share)

    def cut(where):
        return tuple(
            None if part is None else tf.nest.map_structure(lambda column: column[where], part)
            for part in parts
        )

    return cut(slice(None, first)), cut(slice(first, None))


def _tupled(dataset):
    if isinstance(dataset.element_spec, tuple):
        return dataset
    return dataset.map(lambda x: (x,))
