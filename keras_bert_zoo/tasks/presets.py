"""Tasks from presets, folders that others have written, and back to such folders."""

import os
import pathlib
import warnings
from collections.abc import Mapping

from keras_bert_zoo.checkpoints.folder import PresetFolder
from keras_bert_zoo.checkpoints.loading import check_encoder, class_count, fill, warn_of_missing
from keras_bert_zoo.checkpoints.saving import save_preset
from keras_bert_zoo.encoders.bert import BertEncoder
from keras_bert_zoo.tasks.texts import TextModel
from keras_bert_zoo.text.casing import casing_of_name, decide_lowercase
from keras_bert_zoo.text.preprocessor import TextPreprocessor
from keras_bert_zoo.text.tokenizer_files import read_tokenizer_files
from keras_bert_zoo.text.vocabulary import read_vocabulary
from keras_bert_zoo.text.wordpiece import WordPieceTokenizer

# A table may have rows past the vocabulary, to make its size a round number.
_ROUNDING = 128


class PresetModel(TextModel):
    """A task that is built from a preset and written as one.

    A subclass takes the encoder, and `preprocessor=`, in its constructor.
    """

    # Hugging Face's class of such a model.
    architecture = "BertModel"
    load_report = None

    @classmethod
    def from_preset(
        cls,
        preset: str | os.PathLike,
        load_weights: bool = True,
        vocabulary=None,
        lowercase: bool | None = None,
        sequence_length: int | None = None,
        fixed_length: bool = False,
        config_changes: Mapping | None = None,
        extend_positions: str | None = None,
        dtype=None,
        **kwargs,
    ) -> "PresetModel":
        """Builds the task on a preset: its encoder, its head if it has this one, its tokenizer.

        What was loaded, missing and not used is in the attribute `load_report`; a part that the
        preset lacks starts from random values, which a warning tells.

        Args:
            preset: a folder in the layout of Hugging Face, Google or TF Model Garden;
                `hf://owner/name[@revision]`; or a name in `keras_bert_zoo.presets.PRESETS`, whose
                weights come from the Hugging Face hub.
            load_weights: whether to load the weights. Without, they are random, and a name needs
                no download, and has no vocabulary.
            vocabulary: path or list of a WordPiece vocabulary to use instead of the preset's.
            lowercase: whether the tokenizer lower-cases; by default as the preset says.
            sequence_length: tokens that texts are cut and padded to; by default 128, or less if
                the preset has less.
            fixed_length: whether the encoder takes this length only, as XLA and TPUs need it.
            config_changes, extend_positions: as in `BertEncoder.from_preset`. More positions are
                made if `sequence_length` asks for them.
            dtype: dtype policy of all layers.
            **kwargs: as the constructor takes them, less `encoder`. With `preprocessor`, the
                preset's tokenizer is left alone; `preprocessor=None` is for ids only.

        Raises:
            ValueError: as `BertEncoder.from_preset` and the constructor do; or if the preset is of
                another task whose head cannot be told from this one's.
        """
        folder = PresetFolder.open(preset, load_weights)
        config = folder.changed_config(config_changes, extend_positions and sequence_length)
        if "preprocessor" not in kwargs:
            tokenizer, longest = _tokenizer(folder, vocabulary, lowercase)
            positions = config.max_position_embeddings
            # Files beside the weights know nothing of positions that were added.
            longest = positions if extend_positions else min(longest or positions, positions)
            length = sequence_length or min(cls.usual_length(folder), longest)
            if length > longest:
                raise ValueError(
                    f"The model in {folder.path or preset} takes at most {longest} tokens; "
                    "`extend_positions` would make more positions. Received: "
                    f"sequence_length={length}"
                )
            if tokenizer is not None:
                _check_table(tokenizer, config, folder)
                kwargs["preprocessor"] = TextPreprocessor(tokenizer, length)
            sequence_length = length
        if fixed_length and sequence_length is None:
            raise ValueError("`fixed_length=True` needs a `sequence_length`.")

        def build(arguments):
            encoder = BertEncoder(
                config,
                sequence_length=sequence_length if fixed_length else None,
                dtype=dtype,
                **cls.encoder_arguments(arguments),
            )
            return cls(encoder, **arguments)

        if not load_weights:
            folder.check_memory(config)
            return build(cls.preset_arguments(folder, None, kwargs)[0])
        with folder.tensors() as source:
            check_encoder(source, config, extend_positions)
            classes = class_count(source, config)
            arguments, skip = cls.preset_arguments(folder, classes, kwargs)
            task = build(arguments)
            task.load_report = fill(task, source, config, set(skip), extend_positions)
        warn_of_missing(task.load_report, task.architecture, skip)
        return task

    @classmethod
    def preset_arguments(cls, folder: PresetFolder, classes: int | None, given: dict) -> tuple:
        """Completes the constructor's arguments by what a preset says of its head.

        Args:
            folder: the preset.
            classes: outputs of the classifier among its weights; `None` if there is none.
            given: the arguments as the caller gave them.

        Returns:
            All arguments; and by the part whose weights are not this task's the reason, or `None`.
        """
        return given, {}

    @classmethod
    def encoder_arguments(cls, arguments: dict) -> dict:
        """Returns what the encoder must be made with for such arguments of the constructor."""
        return {}

    @classmethod
    def usual_length(cls, folder: PresetFolder) -> int:
        """Returns the length that texts are cut to if nobody says otherwise."""
        return 128

    @property
    def tokenizer(self):
        """The preprocessor's tokenizer, or `None`."""
        return self.preprocessor and self.preprocessor.tokenizer

    def preset_settings(self) -> dict:
        """Returns what a Hugging Face config says of the head, such as its labels."""
        return {}

    def write_preset_files(self, folder: pathlib.Path) -> None:
        """Writes what a Hugging Face folder has beside config, weights and tokenizer."""

    def save_to_preset(self, filepath: str | os.PathLike) -> None:
        """Writes a Hugging Face folder, whole or not at all: config, weights, tokenizer.

        `from_preset` and `transformers` read it. It holds no optimizer and no `sequence_length`,
        which `save` does; and a pooler only where Hugging Face's class has one.

        Args:
            filepath: the folder. One that was written so is replaced; one that holds anything else
                is not.

        Raises:
            ValueError: as `save_preset` does.
            ImportError: if safetensors is not installed.
        """
        save_preset(
            filepath,
            self,
            self.encoder.config,
            self.architecture,
            self.tokenizer,
            self.preset_settings(),
            self.write_preset_files,
        )


def _tokenizer(folder, vocabulary, lowercase):
    """The preset's tokenizer, or one of another vocabulary, and the model's longest input.

    Both are `None` where there is no vocabulary, or nothing that tells of a length.
    """
    settings = None if folder.path is None else read_tokenizer_files(folder.path, lowercase)
    if settings is None and vocabulary is None:
        return None, None
    longest = settings and settings.model_max_length
    if vocabulary is None:
        return WordPieceTokenizer(settings.vocabulary, **settings.arguments), longest
    if isinstance(vocabulary, (str, os.PathLike)):
        vocabulary = read_vocabulary(vocabulary)
    if settings is not None:
        return WordPieceTokenizer(vocabulary, **settings.arguments), longest
    if lowercase is None:
        lowercase = folder.lowercase
    if lowercase is None:
        lowercase = decide_lowercase(None, (), casing_of_name(folder.path), vocabulary)[0]
    return WordPieceTokenizer(vocabulary, lowercase=lowercase), longest


def _check_table(tokenizer, config, folder):
    """Warns of a vocabulary that is so small that it may be another model's.

    A table may have some rows more, as sizes that are round numbers are faster.
    """
    if config.vocab_size - tokenizer.vocabulary_size >= _ROUNDING:
        warnings.warn(
            f"The vocabulary has {tokenizer.vocabulary_size:,} tokens, and the token table "
            f"{config.vocab_size:,} rows: see that it is the vocabulary of the model in "
            f"{folder.path}. Rows past it are never used.",
            stacklevel=3,
        )
