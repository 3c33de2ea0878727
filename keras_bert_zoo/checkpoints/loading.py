"""Loads the weights of a model from a checkpoint: all are checked, and only then assigned."""

import dataclasses
import math
import warnings
from collections.abc import Callable, Mapping, Set

import keras
import numpy as np
import tensorflow as tf

from keras_bert_zoo.checkpoints.arrays import extended, from_stored, piece_shape
from keras_bert_zoo.checkpoints.matching import match_weights
from keras_bert_zoo.checkpoints.names import TIED, variables_by_path
from keras_bert_zoo.checkpoints.tensors import TensorSource
from keras_bert_zoo.config import EncoderConfig
from keras_bert_zoo.layers.initializers import TruncatedNormal, undrawn

_PART = 2 << 20  # Numbers that are assigned together.


@dataclasses.dataclass(frozen=True)
class LoadReport:
    """What became of a checkpoint.

    Attributes:
        source: the file or folder.
        loaded: paths of the model's weights that were loaded.
        missing: paths of the model's weights that the checkpoint lacks, or that were not to be
            loaded; they keep their random values.
        unused: names in the checkpoint that the model has no weight for.
    """

    source: str
    loaded: tuple[str, ...]
    missing: tuple[str, ...]
    unused: tuple[str, ...]

    def __str__(self):
        lines = [f"{len(self.loaded)} weights were loaded from {self.source}."]
        for what, names in (("Missing there", self.missing), ("Not used", self.unused)):
            if names:
                lines.append(f"{what}: {', '.join(names)}")
        return "\n".join(lines)


def build_and_fill(
    build: Callable[[], keras.Model],
    source: TensorSource,
    config: EncoderConfig,
    skip: Set[str] = frozenset(),
    extend_positions: str | None = None,
) -> tuple[keras.Model, LoadReport]:
    """Builds a model and loads a checkpoint into it.

    Initial values are drawn only for what the checkpoint lacks.

    Args:
        build: makes the model.
        source, config, skip, extend_positions: as in `fill`.

    Returns:
        The model and a `LoadReport`.

    Raises:
        ValueError: as `fill` does.
    """
    with undrawn():
        model = build()
    report = fill(model, source, config, skip, extend_positions)
    variables = variables_by_path(model)
    for path in report.missing:
        # Biases start at zero, and scales at one, without a draw; what is not as BERT begins, such
        # as a recurrent layer, has its own values already.
        variable = variables[path]
        if path.endswith("/kernel") and not np.any(variable):
            variable.assign(TruncatedNormal(config.initializer_range)(variable.shape))
    return model, report


def fill(
    model: keras.Model,
    source: TensorSource,
    config: EncoderConfig,
    skip: Set[str] = frozenset(),
    extend_positions: str | None = None,
) -> LoadReport:
    """Loads a checkpoint into a model, an encoder or one with heads.

    All names and shapes are checked before the first weight changes. Tensors are read one at a
    time.

    Args:
        model: the model, whose weights are found by their paths.
        source: the checkpoint.
        config: the encoder's config.
        skip: parts of the model that are not to be loaded, such as `"classifier"`.
        extend_positions: how to fill a position table that has more rows than the checkpoint's,
            see `extended`; `None` if that is an error.

    Returns:
        A `LoadReport`.

    Raises:
        ValueError: if a weight of the encoder is missing, a weight has another shape, or the
            masked-language-model head has a token table of its own.
    """
    variables = variables_by_path(model)

    def shape_of(pair):
        if pair.ours not in variables or pair.part in skip:
            return None
        return piece_shape(tuple(variables[pair.ours].shape), len(pair.theirs))

    matches, stored = match_weights(source, config, shape_of, extend_positions)
    used = {name for match in matches for name in match.stored}
    if any(match.pair.part == "masked_lm" for match in matches):
        used |= _check_tied(source, stored)
    for match in matches:
        variable = variables[match.pair.ours]
        _assign(variable, _value(source, match, tuple(variable.shape), extend_positions))
    loaded = [match.pair.ours for match in matches]
    return LoadReport(
        source=source.origin,
        loaded=tuple(loaded),
        missing=tuple(path for path in variables if path not in set(loaded)),
        unused=tuple(name for name in stored.values() if name not in used),
    )


def _check_tied(source, stored):
    """Refuses a head with a token table of its own, as ours shares the encoder's.

    Returns:
        The stored names of what is there twice.
    """
    copies = set()
    for copy, original in TIED.items():
        if copy not in stored or original not in stored:
            continue
        name, original = stored[copy], stored[original]
        if not np.array_equal(source.read(name), source.read(original), equal_nan=True):
            raise ValueError(
                f"In {source.origin} the masked-language-model head has a table of its own, "
                f"{name}, and ours shares {original}: load the encoder alone, with "
                "`BertEncoder.from_preset`."
            )
        copies.add(name)
    return copies


def _value(source, match, shape, extend_positions):
    """Reads the value of a variable of that shape."""
    pieces = []
    for clean, name in zip(match.pair.theirs, match.stored, strict=True):
        array = source.read(name)
        # A sum is finite only if all of it is, and takes no memory; but one may overflow itself.
        if not np.isfinite(array.sum()) and not np.isfinite(array).all():
            raise ValueError(
                f"{name} in {source.origin} holds numbers that are NaN or infinite: the training "
                "that wrote it went wrong, or it was stored in too small a type."
            )
        pieces.append(from_stored(source.layout, match.pair.ours, clean, array, match.shape))
    value = keras.ops.concatenate(pieces, axis=-1) if len(pieces) > 1 else pieces[0]
    if tuple(value.shape) != shape:  # Only a table of positions to be extended.
        value = extended(value, shape[0], extend_positions)
    return value


def _assign(variable, value):
    """Assigns a value, a large one row by row.

    `assign` needs the memory of a variable twice over, which TensorFlow then keeps.
    """
    whole = variable.value
    rows = max(1, _PART // max(1, math.prod(value.shape[1:])))
    if len(value) <= rows or not isinstance(whole, tf.Variable):
        variable.assign(value)
        return
    for first in range(0, len(value), rows):
        part = tf.cast(value[first : first + rows], whole.dtype)
        whole.scatter_update(tf.IndexedSlices(part, tf.range(first, first + len(part))))


def warn_of_missing(
    report: LoadReport,
    reads_pooler: bool = True,
    reasons: Mapping[str, str | None] | None = None,
) -> None:
    """Warns of the parts of a model that were not loaded, but for a pooler that nothing reads.

    Args:
        report: what came of loading.
        reads_pooler: whether an output of the model depends on the pooler.
        reasons: by the part that was not to be loaded, why.
    """
    layers = dict.fromkeys(path.split("/")[0] for path in report.missing)
    if not reads_pooler:
        layers.pop("pooler", None)
    if layers:
        why = "".join(f", as {reason}" for reason in (reasons or {}).values() if reason)
        start = "they start" if len(layers) > 1 else "it starts"
        warnings.warn(
            f"{report.source} has no weights for {', '.join(layers)}{why}: {start} from random "
            "values, so train the model before you use it.",
            stacklevel=3,
        )
