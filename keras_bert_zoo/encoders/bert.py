"""BERT."""

import os
from collections.abc import Mapping

import keras

from keras_bert_zoo.checkpoints.folder import PresetFolder
from keras_bert_zoo.checkpoints.loading import build_and_fill, warn_of_missing
from keras_bert_zoo.checkpoints.matching import check_encoder, warn_of_more_blocks
from keras_bert_zoo.encoders.transformer import TransformerEncoder


@keras.saving.register_keras_serializable(package="keras_bert_zoo")
class BertEncoder(TransformerEncoder):
    """The BERT encoder (Devlin et al. 2019, arXiv 1810.04805, section 3).

    See `TransformerEncoder` for the arguments, inputs and outputs.

    Example:

    ```python
    import numpy as np
    import keras_bert_zoo as kbz

    encoder = kbz.BertEncoder.from_preset("bert_tiny", load_weights=False)
    outputs = encoder({
        "token_ids": np.array([[101, 7592, 102]]),
        "segment_ids": np.array([[0, 0, 0]]),
        "padding_mask": np.array([[1, 1, 1]]),
    })
    outputs["pooled_output"].shape    # (1, 128)
    ```
    """

    @classmethod
    def from_preset(
        cls,
        preset: str | os.PathLike,
        load_weights: bool = True,
        config_changes: Mapping | None = None,
        extend_positions: str | None = None,
        **kwargs,
    ) -> "BertEncoder":
        """Builds the encoder of a preset and loads its weights.

        What was loaded, missing and not used is in the attribute `load_report`.

        Args:
            preset: a folder in the layout of Hugging Face, Google or TF Model Garden;
                `hf://owner/name[@revision]`; or a name in `keras_bert_zoo.presets.PRESETS`, whose
                weights come from the Hugging Face hub.
            load_weights: whether to load the weights. Without, they are random, and a name needs
                no download.
            config_changes: new values of fields of the config, such as
                `{"hidden_dropout_prob": 0.0}`, or `{"hidden_act": "gelu_new"}` for a model that
                was trained with google-research/bert after February 2019, whose folders do not
                say so.
            extend_positions: how to make more positions than the preset has, if
                `sequence_length` or `config_changes` ask for more: `"copy"` begins its rows anew
                after the last one, `"interpolate"` stretches them. By default that is an error.
            **kwargs: as the constructor takes them, less `config`.

        Raises:
            ValueError: if there is no such preset, it is no BERT, a weight is missing or has
                another shape than the config says, or a file is damaged.
            ImportError: if an extra that the preset's files need is not installed.
        """
        folder = PresetFolder.open(preset, load_weights)
        length = kwargs.get("sequence_length") if extend_positions else None
        config = folder.changed_config(config_changes, length)
        if not load_weights:
            folder.check_memory(config)
            return cls(config, **kwargs)
        with folder.tensors() as source:
            check_encoder(source, config, extend_positions)
            folder.check_memory(config)
            encoder, encoder.load_report = build_and_fill(
                lambda: cls(config, **kwargs), source, config, extend_positions=extend_positions
            )
            if config.num_hidden_layers == folder.config.num_hidden_layers:
                warn_of_more_blocks(source, config)
        warn_of_missing(encoder.load_report)
        return encoder
