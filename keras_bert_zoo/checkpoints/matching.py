"""Finds the weights of a model in a checkpoint by name and shape, before any is read."""

import dataclasses
import warnings
from collections.abc import Callable

from keras_bert_zoo.checkpoints.arrays import EXTENSIONS, stored_shape
from keras_bert_zoo.checkpoints.names import POSITIONS, Pair, cleaned, name_pairs
from keras_bert_zoo.checkpoints.tensors import TensorSource
from keras_bert_zoo.config import EncoderConfig

_NAMED = 4  # How many names an error gives as examples.


@dataclasses.dataclass(frozen=True)
class Match:
    """A variable of ours, the shape of its pieces, and their stored names."""

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

    match_weights(source, config, shape_of, extend_positions)


def match_weights(
    source: TensorSource,
    config: EncoderConfig,
    shape_of: Callable[[Pair], tuple | None],
    extend_positions: str | None,
) -> tuple[list[Match], dict[str, str]]:
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
            if pair.ours == POSITIONS and found[1:] == expected[1:] and found[0] < expected[0]:
                positions = (found[0], expected[0])
                shape = found
            elif found != expected:
                wrong.append(f"{name} has the shape {found}, and the config asks for {expected}")
            elif "float" not in kinds[name].dtype:
                wrong.append(f"{name} holds {kinds[name].dtype}, and weights are floats")
        matches.append(Match(pair, shape, names))
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
