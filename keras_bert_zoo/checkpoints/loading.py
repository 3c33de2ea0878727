"""Finds the weights of a model in a checkpoint, checks them all, and only then assigns them."""

import dataclasses
import math
import warnings
from collections.abc import Callable, Mapping, Set

import keras
import numpy as np
import tensorflow as tf

from keras_bert_zoo.checkpoints.arrays import extended, from_stored, piece_shape, stored_shape
from keras_bert_zoo.checkpoints.names import (
    TIED,
    Pair,
    cleaned,
    name_pairs,
    variables_by_path,
)
from keras_bert_zoo.checkpoints.tensors import TensorSource
from keras_bert_zoo.config import EncoderConfig
from keras_bert_zoo.layers.initializers import TruncatedNormal, undrawn

EXTENSIONS = ("copy", "interpolate")
_NAMED = 4  # How many names an error gives as examples.
_PART = 2 << 20  # Numbers that are assigned together.
_POSITIONS = "embeddings/position_table"


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


@dataclasses.dataclass(frozen=True)
class _Match:
    pair: Pair
    shape: tuple
    stored: tuple[str, ...]


def check_encoder(
    source: TensorSource, config: EncoderConfig, extend_positions: str | None = None
) -> None:
    """Checks that a checkpoint holds every weight of an encoder, in the shapes of a config.

    Only names and shapes are read, so that a config that has nothing to do with the checkpoint, or
    has absurd sizes, is refused before a model of that size is built.

    Args:
        source: the checkpoint.
        config: the encoder.
        extend_positions: as in `fill`.

    Raises:
        ValueError: if a weight is missing or has another shape.
    """
    sizes = {
        "V": config.vocab_size,
        "P": config.max_position_embeddings,
        "S": config.type_vocab_size,
        "E": config.embedding_size or config.hidden_size,
        "H": config.hidden_size,
        "I": config.intermediate_size,
    }

    def shape_of(pair):
        return tuple(sizes[letter] for letter in pair.shape) if pair.part == "encoder" else None

    _match(source, config, shape_of, extend_positions)


def warn_of_more_blocks(source: TensorSource, config: EncoderConfig) -> None:
    """Warns if a checkpoint has blocks that its own config does not tell of."""
    blocks = config.num_hidden_layers
    stored = cleaned(source.layout, source.shapes(), blocks + 1)
    start = f"block_{blocks}/"
    pairs = name_pairs(source.layout, blocks + 1)
    further = [name for pair in pairs if pair.ours.startswith(start) for name in pair.theirs]
    if any(name in stored for name in further):
        warnings.warn(
            f"{source.origin} has more blocks than the {blocks} that its config tells of "
            "(`num_hidden_layers`): the config may be that of another model. The first ones are "
            "loaded.",
            stacklevel=3,
        )


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
        # Biases start at zero, and scales at one, without a draw.
        if path.endswith("/kernel"):
            variable = variables[path]
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
            one of `EXTENSIONS`, see `extended`; `None` if that is an error.

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

    matches, stored = _match(source, config, shape_of, extend_positions)
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


def class_count(source: TensorSource, config: EncoderConfig) -> int | None:
    """How many outputs the classifier in a checkpoint has; `None` if there is no classifier."""
    stored = cleaned(source.layout, source.shapes(), config.num_hidden_layers)
    names = {p.shape: p.theirs[0] for p in name_pairs(source.layout, 0) if p.part == "classifier"}
    there = {shape: stored[name] for shape, name in names.items() if name in stored}
    if not there:
        return None
    shapes = source.shapes()
    if there.keys() != names.keys() or len(shapes[there["C"]]) != 1:
        raise ValueError(
            f"{source.origin} holds half a classifier, {', '.join(there.values())}: a matrix and a "
            "vector are needed. Nothing was loaded."
        )
    return shapes[there["C"]][0]


def parts_in(source: TensorSource, config: EncoderConfig) -> set[str]:
    """The parts of models, such as `"pooler"` and `"masked_lm"`, that a checkpoint has whole."""
    stored = cleaned(source.layout, source.shapes(), config.num_hidden_layers)
    parts, lacking = set(), set()
    for pair in name_pairs(source.layout, config.num_hidden_layers):
        parts.add(pair.part)
        if not stored.keys() >= set(pair.theirs):
            lacking.add(pair.part)
    return parts - lacking


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


def _match(
    source: TensorSource,
    config: EncoderConfig,
    shape_of: Callable[[Pair], tuple | None],
    extend_positions: str | None,
) -> tuple[list[_Match], dict[str, str]]:
    """Finds the pieces of every variable that `shape_of` gives a shape for.

    Returns:
        What was found, and the stored names by clean ones.
    """
    if extend_positions not in (None, *EXTENSIONS):
        raise ValueError(
            f"`extend_positions` must be one of {', '.join(EXTENSIONS)}, or None. "
            f"Received: {extend_positions!r}"
        )
    shapes, kinds = source.shapes(), source.stored()
    stored = cleaned(source.layout, shapes, config.num_hidden_layers)
    matches, missing, wrong, positions = [], [], [], None
    absent: dict[str, list] = {}  # What is not there, of the parts that may be missing.
    for pair in name_pairs(source.layout, config.num_hidden_layers):
        shape = shape_of(pair)
        if shape is None:
            continue
        lacking = [name for name in pair.theirs if name not in stored]
        if lacking:
            if pair.part != "encoder":
                absent.setdefault(pair.part, []).extend(lacking)
                continue
            missing += lacking
            if len(missing) > _NAMED:
                break
            continue
        names = tuple(stored[name] for name in pair.theirs)
        for clean, name in zip(pair.theirs, names, strict=True):
            expected = stored_shape(source.layout, pair.ours, clean, shape, config)
            found = tuple(shapes[name])
            if pair.ours == _POSITIONS and found[1:] == expected[1:] and found[0] < expected[0]:
                positions = (found[0], expected[0])
                shape = found
            elif found != expected:
                wrong.append(f"{name} has the shape {found}, and the config asks for {expected}")
            elif "float" not in kinds[name].dtype:
                wrong.append(f"{name} holds {kinds[name].dtype}, and weights are floats")
        matches.append(_Match(pair, shape, names))
    # A part may be missing, and not half of it.
    for part in {match.pair.part for match in matches} & absent.keys():
        missing += absent[part]
    if missing:
        _refuse_missing(source, missing, stored, found_any=bool(matches))
    if wrong:
        more = f"; and {len(wrong) - _NAMED} more" if len(wrong) > _NAMED else ""
        raise ValueError(
            f"The weights in {source.origin} do not fit the config: {'; '.join(wrong[:_NAMED])}"
            f"{more}. Nothing was loaded."
        )
    if positions and extend_positions is None:
        raise ValueError(
            f"The position table in {source.origin} has {positions[0]} rows, and {positions[1]} "
            f"were asked for: pass `extend_positions={EXTENSIONS[0]!r}` to begin its rows anew "
            f"after the last one, or `extend_positions={EXTENSIONS[1]!r}` to stretch them; then "
            "train, as the model has not seen such positions."
        )
    return matches, stored


def _refuse_missing(source, missing, stored, found_any):
    examples = ", ".join(missing[:_NAMED]) + (" and more" if len(missing) > _NAMED else "")
    there = sorted(stored.values())
    there = ", ".join(there[:_NAMED]) + (", ..." if len(there) > _NAMED else "")
    if found_any:
        raise ValueError(
            f"{source.origin} lacks weights that the config asks for: {examples}. Either the file "
            "is not whole or the config is not its own. Nothing was loaded."
        )
    raise ValueError(
        f"{source.origin} holds no weight of a BERT encoder ({examples} were looked for). Its "
        f"weights have names such as: {there or 'none at all'}. Nothing was loaded."
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
