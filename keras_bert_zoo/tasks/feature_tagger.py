"""Labels for words by a network on top of an encoder that is not trained."""

from collections.abc import Sequence

import keras

from keras_bert_zoo.encoders.transformer import TransformerEncoder, encoder_inputs
from keras_bert_zoo.layers.dropout import Dropout
from keras_bert_zoo.layers.scalar_mix import ScalarMix
from keras_bert_zoo.tasks.heads import checked_layers, dense_head
from keras_bert_zoo.tasks.labels import checked_labels
from keras_bert_zoo.tasks.tagging import Tagger
from keras_bert_zoo.text.preprocessor import TextPreprocessor

_COMBINATIONS = ("concat", "sum", "mix")
_LAST = 4  # How many of the last blocks are read by default.


@keras.saving.register_keras_serializable(package="keras_bert_zoo")
class FeatureTagger(Tagger):
    """Labels tokens by a BiLSTM on the states of a frozen encoder (arXiv 1810.04805, section 5.3).

    The encoder runs as in inference, without dropout, gets no gradient and is set to
    `trainable = False`. The states of some of its layers become one, which goes through two
    bidirectional LSTMs and a dense layer. Outputs are float32 logits (B, L, labels).

    It is trained and used as a `TokenClassifier` is; see there for targets, `tag` and `export`.

    Args:
        encoder: the encoder, made with `output_hidden_states=True`.
        labels: the labels' names, in the order of the logits.
        preprocessor: a `TextPreprocessor`; `None` if ids will be fed.
        layers: places of the states to read: 0 is the sum of embeddings, 1 the first block, -1
            the last one. By default the last four blocks.
        combine: how they become one: `"concat"`, side by side, `"sum"`, or `"mix"`, a
            `ScalarMix`, which is learnt.
        units: width of an LSTM in each direction. (The paper's have 768 dimensions.)
        recurrent_layers: how many bidirectional LSTMs follow each other.
        dropout: dropout rate before each of them and before the dense layer.

    Raises:
        ValueError: if there are fewer than two labels, one stands twice, there is no such layer or
            combination, or the encoder does not give its layers.
    """

    def __init__(
        self,
        encoder: TransformerEncoder,
        labels: Sequence[str],
        preprocessor: TextPreprocessor | None = None,
        layers: Sequence[int] | None = None,
        combine: str = "concat",
        units: int = 384,
        recurrent_layers: int = 2,
        dropout: float = 0.1,
        **kwargs,
    ):
        labels = checked_labels(labels)
        if combine not in _COMBINATIONS:
            raise ValueError(
                f"`combine` must be one of {', '.join(_COMBINATIONS)}. Received: {combine!r}"
            )
        for name, value in (("units", units), ("recurrent_layers", recurrent_layers)):
            if type(value) is not int or value < 1:
                raise ValueError(f"`{name}` must be a whole number from 1 on. Received: {value!r}")
        if layers is None:
            layers = list(range(-min(_LAST, encoder.config.num_hidden_layers), 0))
        layers = checked_layers(encoder, layers)
        inputs = encoder_inputs(encoder.sequence_length)
        # The head is float32 under any policy, as heads are.
        states = FrozenEncoder(encoder, layers, name="frozen_encoder")(inputs)
        states = [keras.ops.cast(state, "float32") for state in states]
        if combine == "mix":
            x = ScalarMix(dtype="float32", name="scalar_mix")(states)
        elif combine == "sum":
            x = sum(states[1:], states[0])
        else:
            x = keras.ops.concatenate(states, -1) if len(states) > 1 else states[0]
        mask = keras.ops.cast(inputs["padding_mask"], "bool")
        for number in range(recurrent_layers):
            x = Dropout(dropout, dtype="float32", name=f"lstm_{number}_dropout")(x)
            lstm = keras.layers.LSTM(units, return_sequences=True, dtype="float32", name="lstm")
            x = keras.layers.Bidirectional(lstm, dtype="float32", name=f"lstm_{number}")(
                x, mask=mask
            )
        outputs = dense_head(encoder, x, len(labels), dropout, name="tag_logits")
        super().__init__(encoder, labels, preprocessor, inputs, outputs, **kwargs)
        self.feature_layers = layers
        self.combine = combine
        self.units = units
        self.recurrent_layers = recurrent_layers
        self.dropout_rate = dropout

    @classmethod
    def preset_arguments(cls, folder, classes, given):
        if given.get("labels") is None:
            raise ValueError(f"{cls.__name__} is always made anew: pass `labels=[...]`.")
        return given, {}

    @classmethod
    def encoder_arguments(cls, arguments):
        return {"output_hidden_states": True}

    def save_to_preset(self, filepath):
        """Raises ValueError: a Hugging Face folder has no place for LSTMs; `save` has."""
        raise ValueError(
            f"A Hugging Face folder has no place for a {type(self).__name__}: save it with `save`, "
            f"to a .keras file. Received: {filepath}"
        )

    def get_config(self):
        return super().get_config() | {
            "layers": self.feature_layers,
            "combine": self.combine,
            "units": self.units,
            "recurrent_layers": self.recurrent_layers,
            "dropout": self.dropout_rate,
        }


class FrozenEncoder(keras.layers.Layer):
    """Runs an encoder as in inference, also in training, and passes no gradient to it.

    Args:
        encoder: the encoder, which is set to `trainable = False`.
        places: which of its `hidden_states` are given.

    Call arguments:
        ids: the encoder's inputs.

    Returns:
        A list of float tensors (B, L, H).
    """

    def __init__(self, encoder, places, **kwargs):
        super().__init__(**kwargs)
        encoder.trainable = False
        self.encoder = encoder
        self.places = places
        self.built = True

    def call(self, ids):
        states = self.encoder(ids, training=False)["hidden_states"]
        return [keras.ops.stop_gradient(states[place]) for place in self.places]
