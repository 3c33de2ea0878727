"""Tasks from presets, folders that others have written, and back to such folders."""

import os
import pathlib
import warnings
from collections.abc import Mapping

from keras_bert_zoo.checkpoints.folder import PresetFolder
from keras_bert_zoo.checkpoints.loading import build_and_fill, warn_of_missing
from keras_bert_zoo.checkpoints.matching import check_encoder, class_count, warn_of_more_blocks
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
    # Whether an output depends on the pooler.
    reads_pooler = True
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
            sequence_length: tokens that texts are cut and padded to; by default 128 (384 for
                questions, and what its folder says for a `TextEmbedder`), or less if the preset has
                less.
            fixed_length: whether the encoder takes this length only, as XLA and TPUs need it.
            config_changes, extend_positions: as in `BertEncoder.from_preset`. More positions are
                made if `sequence_length` asks for them.
            dtype: dtype policy of all layers.
            **kwargs: as the constructor takes them, less `encoder`. With `preprocessor`, the
                preset's tokenizer is left alone; `preprocessor=None` is for ids only.

        Raises:
            ValueError: as `BertEncoder.from_preset` and the constructor do; or if the preset is of
                another task whose head cannot be told from this one's.
            ImportError: if an extra that the preset's files need is not installed.
        """
        _check_lengths(sequence_length, kwargs, vocabulary, lowercase)
        folder = PresetFolder.open(preset, load_weights)
        blocks = folder.config.num_hidden_layers
        positions = sequence_length if extend_positions else None
        folder = folder.with_config(folder.changed_config(config_changes, positions))
        config = folder.config
        if "preprocessor" not in kwargs:
            tokenizer, longest = _tokenizer(folder, vocabulary, lowercase)
            positions = config.max_position_embeddings
            # Files beside the weights know nothing of positions that were added.
            longest = positions if extend_positions else min(longest or positions, positions)
            if sequence_length is None:
                sequence_length = min(cls.usual_length(folder), longest)
            if sequence_length > longest:
                raise ValueError(
                    f"The model in {folder.path or preset} takes at most {longest} tokens; "
                    "`extend_positions` would make more positions. Received: "
                    f"sequence_length={sequence_length}"
                )
            if tokenizer is not None:
                _check_table(tokenizer, config, folder)
                kwargs["preprocessor"] = TextPreprocessor(tokenizer, sequence_length)
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
            folder.check_memory(config)
            classes = class_count(source, config)
            arguments, skip = cls.preset_arguments(folder, classes, kwargs)
            task, task.load_report = build_and_fill(
                lambda: build(arguments), source, config, set(skip), extend_positions
            )
            if config.num_hidden_layers == blocks:
                warn_of_more_blocks(source, config)
        warn_of_missing(task.load_report, task.reads_pooler, skip)
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
    def has_pooler(self) -> bool:
        """Whether Hugging Face's class has a pooler, which is then written with the weights."""
        return self.reads_pooler

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

        Where the encoder is causal, `transformers` pools the first token and we the last: a head
        on the pooled output gives something else there.

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
            with_pooler=self.has_pooler,
            tokenizer=self.tokenizer,
            settings=self.preset_settings(),
            write_more=self.write_preset_files,
        )


def _check_lengths(sequence_length, given, vocabulary, lowercase):
    """Refuses arguments that say nothing, or would not be heard."""
    if sequence_length is not None and (type(sequence_length) is not int or sequence_length < 1):
        raise ValueError(
            f"`sequence_length` is a whole number of tokens. Received: {sequence_length!r}"
        )
    if "preprocessor" in given:
        unheard = {"vocabulary": vocabulary, "lowercase": lowercase}
        if given["preprocessor"] is not None:
            unheard["sequence_length"] = sequence_length
        unheard = [name for name, value in unheard.items() if value is not None]
        if unheard:
            raise ValueError(
                f"`preprocessor` was given, and {', '.join(unheard)} too, which make one: leave "
                "out one or the other."
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
