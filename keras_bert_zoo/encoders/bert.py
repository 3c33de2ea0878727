"""BERT."""

import keras

from keras_bert_zoo.encoders.transformer import TransformerEncoder
from keras_bert_zoo.presets import get_preset


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
    def from_preset(cls, preset: str, load_weights: bool = True, **kwargs) -> "BertEncoder":
        """Builds the encoder of a named preset.

        Args:
            preset: a name in `keras_bert_zoo.presets.PRESETS`.
            load_weights: must be false: fresh weights. Released weights cannot be read yet.
            **kwargs: as the constructor takes them, less `config`.

        Raises:
            ValueError: if there is no such preset, or `load_weights` is true.
        """
        found = get_preset(preset)
        if load_weights:
            raise ValueError(
                f"The released weights of {preset!r} ({found.hub_id}) cannot be read yet: pass "
                "`load_weights=False` for the architecture with fresh weights."
            )
        return cls(found.config, **kwargs)
