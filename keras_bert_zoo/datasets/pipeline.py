"""Examples to batches of like length: shuffled, and padded to little more than they need."""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping

import keras
import numpy as np
import tensorflow as tf

from keras_bert_zoo.tasks.inputs import steady
from keras_bert_zoo.text.keyed_random import keyed_permutation, pass_key

_CHUNK = 4096  # Examples that are encoded together.
_MULTIPLE = 8  # Lengths are multiples of it, which suits hardware and makes for few shapes.
_WINDOW = 64  # Batches whose rows are sorted by length together.
_EXAMPLES, _BATCHES = 11, 12  # Streams of random numbers.


@dataclasses.dataclass(frozen=True)
class EncodedExamples:
    """Examples as ids, without padding, in memory.

    Attributes:
        features: by name, int32 ragged (n, None), or (n, None, None) where an example has several
            rows; all of one shape. `padding_mask` is among them.
        targets: what comes with them: an array of n rows, ragged where there is one number a
            token, a dict of such, or `None`.
        weights: float32 (n,), ragged where there is one a token, or `None`.
        length: the length that all rows are padded to; `None` for the longest of each batch.
    """

    features: Mapping[str, tf.RaggedTensor]
    targets: object = None
    weights: np.ndarray | None = None
    length: int | None = None

    def __len__(self):
        return int(self.features["padding_mask"].nrows())

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each example, or of the longest of its rows; int64 (n,)."""
        mask = self.features["padding_mask"]
        lengths = mask.row_lengths(axis=mask.ragged_rank)
        return (lengths if mask.ragged_rank == 1 else tf.reduce_max(lengths, axis=-1)).numpy()

    def training_batches(self, batch_size: int, seed: int = 0) -> tf.data.Dataset:
        """Batches in another order in each pass, the same in every run with the same seed.

        Of 64 batches at a time, rows of like length go together; the batches come in random order.

        Args:
            batch_size: examples a batch; the last ones may make a smaller one.
            seed: seed of the order.

        Returns:
            A `tf.data.Dataset` of `(x, y)`, `(x,)` or `(x, y, sample_weight)`, as `fit` takes it.
        """
        count, lengths = len(self), tf.constant(self.lengths)
        batches = -(-count // batch_size)

        def rows(again):
            numbers = tf.range(count, dtype=tf.int64)
            order = keyed_permutation(seed, again, numbers, _EXAMPLES, count)
            window = numbers // (batch_size * _WINDOW)
            longest_first = window * 2**32 - tf.gather(lengths, order)
            order = tf.gather(order, tf.argsort(longest_first, stable=True))
            places = tf.range(batches, dtype=tf.int64)
            places = keyed_permutation(seed, again, places, _BATCHES, batches)
            return tf.gather(_cut(order, batch_size), places)

        passes = pass_key(seed).take(1)
        numbered = passes.flat_map(lambda again: tf.data.Dataset.from_tensor_slices(rows(again)))
        return self._taken(numbered, batches)

    def evaluation_batches(self, batch_size: int) -> tf.data.Dataset:
        """Batches of all examples, longest first, in the form of `training_batches`."""
        batches = -(-len(self) // batch_size)
        order = tf.constant(self.evaluation_order)
        return self._taken(tf.data.Dataset.from_tensor_slices(_cut(order, batch_size)), batches)

    @property
    def evaluation_order(self) -> np.ndarray:
        """The numbers of the examples in the order of `evaluation_batches`."""
        return np.argsort(-self.lengths, kind="stable")

    def outputs(
        self, model: keras.Model, batch_size: int, verbose="auto"
    ) -> Iterator[tuple[np.ndarray, object]]:
        """Runs a model over all examples.

        Args:
            model: the model.
            batch_size: examples a batch.
            verbose: whether to show a progress bar; by default over a hundred batches or more.

        Yields:
            For each batch the numbers of its examples, and the model's outputs as numpy arrays.
        """
        dataset, order = self.evaluation_batches(batch_size), self.evaluation_order
        run = _forward(model, dataset.element_spec[0])
        batches = int(dataset.cardinality())
        if verbose == "auto":
            verbose = batches >= 100
        bar = keras.utils.Progbar(batches, verbose=int(verbose), unit_name="batch")
        for number, batch in enumerate(dataset):
            outputs = tf.nest.map_structure(lambda tensor: tensor.numpy(), run(batch[0]))
            yield order[number * batch_size : (number + 1) * batch_size], outputs
            bar.add(1)

    def padding_share(self, batch_size: int) -> float:
        """The share of padding among the tokens that one pass of `training_batches` computes."""
        real = total = 0
        for batch in self.training_batches(batch_size):
            mask = batch[0]["padding_mask"].numpy()
            real, total = real + mask.sum(), total + mask.size
        return float(1 - real / total)

    def _taken(self, numbered, batches):
        parts = [self.features]
        if self.targets is not None or self.weights is not None:
            parts.append(self.targets)
        if self.weights is not None:
            parts.append(self.weights)

        most = int(self.lengths.max())

        def take(rows):
            taken = [
                tf.nest.map_structure(lambda part: tf.gather(part, rows), part) for part in parts
            ]
            width = self.length
            if width is None:
                mask = taken[0]["padding_mask"]
                longest = tf.reduce_max(mask.row_lengths(axis=mask.ragged_rank))
                # No row is longer than the longest of all, for which there are positions.
                width = tf.minimum(tf.maximum(-(-longest // _MULTIPLE), 1) * _MULTIPLE, most)
            # A label that stands on padding is none, which a negative number says.
            fillings = (0, -1, 0)[: len(taken)]
            return tuple(
                tf.nest.map_structure(
                    functools.partial(_padded, width=width, filling=filling), part
                )
                for part, filling in zip(taken, fillings, strict=True)
            )

        dataset = numbered.map(take, num_parallel_calls=tf.data.AUTOTUNE)
        dataset = dataset.apply(tf.data.experimental.assert_cardinality(batches))
        return steady(dataset.prefetch(tf.data.AUTOTUNE))


def encode(
    read: Callable,
    columns,
    targets=None,
    weights=None,
    length: int | None = None,
    verbose="auto",
) -> EncodedExamples:
    """Turns all examples into ids.

    Args:
        read: turns columns of texts into a dict of padded ids, as a task's `read_texts` does.
        columns: what it takes: a column of strings, a tuple of two, or a dict.
        targets: what is to be learnt, see `EncodedExamples`.
        weights: float (n,), or `None`.
        length: the length that all rows are padded to; `None` for the longest of each batch.
        verbose: whether to show a progress bar; by default over 32,768 examples or more.

    Raises:
        ValueError: if there are no examples, or columns, targets and weights differ in number.
    """
    if isinstance(targets, Mapping):
        targets = {name: _array(part) for name, part in targets.items()}
    else:
        targets = _array(targets)
    weights = None if weights is None else np.asarray(weights, np.float32)
    counts = {len(column) for column in _parts(columns)}
    counts |= {part.shape[0] for part in (*_parts(targets), weights) if part is not None}
    if len(counts) != 1 or 0 in counts:
        raise ValueError(
            "Texts, targets and weights must be equally many, and at least one. Received: "
            f"{sorted(counts)}"
        )
    count = counts.pop()
    if verbose == "auto":
        verbose = count >= 8 * _CHUNK
    bar = keras.utils.Progbar(count, verbose=int(verbose), unit_name="text")
    chunks = []
    for first in range(0, count, _CHUNK):
        chunk = [list(column[first : first + _CHUNK]) for column in _parts(columns)]
        if isinstance(columns, Mapping):
            chunk = dict(zip(columns, chunk, strict=True))
        elif isinstance(columns, tuple):
            chunk = tuple(chunk)
        else:
            (chunk,) = chunk
        chunks.append(_ragged(read(chunk)))
        bar.add(min(_CHUNK, count - first))
    features = {name: tf.concat([chunk[name] for chunk in chunks], 0) for name in chunks[0]}
    return EncodedExamples(features, targets, weights, length)


def _forward(model, spec):
    """The model as a graph for inputs of any length, traced once a model."""
    known = model.__dict__.get("_forward")
    if known is None or known[0] != spec:
        function = tf.function(
            lambda x: model(x, training=False), input_signature=[spec], autograph=False
        )
        known = model.__dict__["_forward"] = (spec, function)
    return known[1]


def _parts(columns):
    if isinstance(columns, Mapping):
        return list(columns.values())
    return list(columns) if isinstance(columns, tuple) else [columns]


def _array(part):
    return part if part is None or isinstance(part, tf.RaggedTensor) else np.asarray(part)


def _ragged(ids):
    mask = ids["padding_mask"]
    lengths = tf.reshape(tf.reduce_sum(mask, axis=-1), [-1])

    def ragged(tensor):
        rows = tf.RaggedTensor.from_tensor(tf.reshape(tensor, [-1, tensor.shape[-1]]), lengths)
        if tensor.shape.rank == 2:
            return rows
        return tf.RaggedTensor.from_row_lengths(rows, np.full(tensor.shape[0], tensor.shape[1]))

    return {name: ragged(tensor) for name, tensor in ids.items()}


def _padded(part, width, filling):
    """A ragged part with rows of that width; one that is dense as it is."""
    if not isinstance(part, tf.RaggedTensor):
        return part
    shape = tf.stack([*[tf.constant(-1, tf.int64)] * part.ragged_rank, tf.cast(width, tf.int64)])
    dense = part.to_tensor(filling, shape=shape)
    return tf.ensure_shape(
        dense, [None] * part.ragged_rank + [width if isinstance(width, int) else None]
    )


def _cut(order, batch_size):
    """Numbers of examples as ragged rows of a batch each."""
    count = tf.size(order)
    starts = tf.range(0, count, batch_size)
    return tf.RaggedTensor.from_row_starts(order, starts)
