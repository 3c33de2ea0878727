"""A folder of a model as others write them: its config, labels and weights."""

import contextlib
import dataclasses
import os
import pathlib
from collections.abc import Mapping

from keras_bert_zoo.checkpoints.tensors import TensorSource, open_tensors
from keras_bert_zoo.config import EncoderConfig, read_config_values
from keras_bert_zoo.hub import find_folder
from keras_bert_zoo.presets import PRESETS

_OBJECTS = 1 << 18  # What the Keras objects of a block take, in weights: some 1 MB.


@dataclasses.dataclass(frozen=True)
class PresetFolder:
    """What a preset stands for.

    Attributes:
        path: the folder; `None` for a named architecture without weights.
        config: the encoder.
        values: the content of the config file, or {}.
        lowercase: whether a named architecture is uncased; `None` for a folder.
    """

    path: pathlib.Path | None
    config: EncoderConfig
    values: Mapping
    lowercase: bool | None = None

    @classmethod
    def open(cls, preset: str | os.PathLike, load_weights: bool = True) -> "PresetFolder":
        """Finds a preset, downloading it where it is not on this machine, and reads its config.

        Args:
            preset: a folder, `hf://owner/name`, or a name in `keras_bert_zoo.presets.PRESETS`, see
                `keras_bert_zoo.hub.find_folder`.
            load_weights: whether weights will be wanted. Without, a name needs no download.

        Raises:
            ValueError: if there is no such preset, or its config is that of another model.
        """
        if not load_weights and isinstance(preset, str) and preset in PRESETS:
            return cls(None, PRESETS[preset].config, {}, PRESETS[preset].lowercase)
        # Weights are fetched only once it is known that they are a BERT's.
        path = find_folder(preset, load_weights=False)
        file, values = read_config_values(path)
        try:
            config = EncoderConfig.from_dict(values)
        except ValueError as error:
            raise ValueError(f"{file}: {error}") from error
        if load_weights:
            path = find_folder(preset)
        return cls(path, config, values)

    @property
    def architectures(self) -> tuple[str, ...]:
        """Names of Hugging Face's classes that the weights are of; () if the config has none.

        Raises:
            ValueError: if what it has are no names.
        """
        names = self.values.get("architectures") or ()
        names = (names,) if isinstance(names, str) else names
        if isinstance(names, (list, tuple)) and all(isinstance(name, str) for name in names):
            return tuple(names)
        raise ValueError(
            f"The config in {self.path} has `architectures` that are no list of names. Received: "
            f"{names!r:.200}"
        )

    @property
    def label_names(self) -> list[str] | None:
        """The labels in the order of their numbers, `None` if the config has none.

        Raises:
            ValueError: if the config's `id2label` is no object of numbers and names from 0 on.
        """
        labels = self.values.get("id2label")
        if labels is None:
            return None
        with contextlib.suppress(AttributeError, TypeError, ValueError):
            by_number = {int(number): name for number, name in labels.items()}
            whole = len(by_number) == len(labels) and sorted(by_number) == list(range(len(labels)))
            kinds = {type(name) for name in by_number.values()}
            if whole and kinds <= {str, int, float}:
                return [str(by_number[number]) for number in range(len(by_number))]
        raise ValueError(
            f"The config in {self.path} has an `id2label` that is no object of numbers from 0 and "
            f'names, such as {{"0": "no", "1": "yes"}}. Received: {labels!r:.200}'
        )

    def with_config(self, config: EncoderConfig) -> "PresetFolder":
        """The same preset with another config."""
        return dataclasses.replace(self, config=config)

    def tensors(self) -> TensorSource:
        """Opens the weights."""
        return open_tensors(self.path)

    def changed_config(self, changes: Mapping | None, positions: int | None = None):
        """The config with some fields changed.

        Args:
            changes: new values of fields of `EncoderConfig`.
            positions: positions that are wanted; `None` if as many as there are.

        Returns:
            An `EncoderConfig`.

        Raises:
            ValueError: if there is no such field, or a value is not allowed.
        """
        if not isinstance(changes, Mapping | None):
            raise ValueError(
                "`config_changes` are fields of the config by name, such as "
                f'{{"hidden_dropout_prob": 0.0}}. Received: {changes!r:.80}'
            )
        changes = dict(changes or {})
        if positions is not None and positions > self.config.max_position_embeddings:
            changes.setdefault("max_position_embeddings", positions)
        known = [field.name for field in dataclasses.fields(EncoderConfig)]
        for name in changes:
            if name not in known:
                raise ValueError(f"A config has no {name!r} to change. It has: {', '.join(known)}")
        return dataclasses.replace(self.config, **changes)

    def check_memory(self, config: EncoderConfig) -> None:
        """Refuses a config whose weights alone are more than this machine's memory.

        Raises:
            ValueError: if they are.
        """
        block = 4 * config.hidden_size**2 + 2 * config.hidden_size * config.intermediate_size
        block += _OBJECTS
        rows = config.vocab_size + config.max_position_embeddings + config.type_vocab_size
        weights = config.num_hidden_layers * block + rows * config.hidden_size
        try:
            memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        except (AttributeError, ValueError, OSError):
            return  # A system that does not tell.
        if 4 * weights > memory:
            raise ValueError(
                f"The config in {self.path} is of a model that takes {4 * weights / 2**30:,.0f} "
                f"GiB, and this machine has {memory / 2**30:,.0f} GiB."
            )
