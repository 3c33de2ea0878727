"""The functional encoder that every family of post-norm transformers is a setting of."""

import os

import keras

from keras_bert_zoo.checkpoints.saving import save_preset
from keras_bert_zoo.config import EncoderConfig
from keras_bert_zoo.layers.embeddings import EmbeddingSum, TokenEmbedding
from keras_bert_zoo.layers.initializers import TruncatedNormal, undrawn
from keras_bert_zoo.layers.pooler import PooledPlace, Pooler
from keras_bert_zoo.layers.transformer import TransformerBlock


@keras.saving.register_keras_serializable(package="keras_bert_zoo")
class TransformerEncoder(keras.Model):
    """A transformer encoder as a functional Keras model over a dict of inputs.

    Inputs, all int32 (B, L): `token_ids`, `segment_ids`, `padding_mask` (1 at real tokens).

    Outputs: a dict of `sequence_output` (B, L, H) and `pooled_output` (B, H), in the compute
    dtype; `hidden_states`, a list of the embeddings and every block's output, each (B, L, H),
    where `output_hidden_states`; `attentions`, a list of each block's probabilities (B, A, L, L),
    where `output_attentions`.

    With `config.is_decoder` the encoder is causal: no vector depends on later tokens. The first
    one then knows nothing of the text, so `pooled_output` is made of the last real token of each
    row. (Hugging Face's decoders pool the first one all the same; their other outputs are equal.)

    Args:
        config: an `EncoderConfig`.
        sequence_length: a fixed length L, as XLA and TPUs need it; `None` for any length.
        output_hidden_states: whether every layer's states are outputs too.
        output_attentions: whether the attention probabilities are outputs too.
        dtype: dtype policy of all layers; the global policy by default.
        name: name of the model.

    Attributes:
        config: the `EncoderConfig`.
        token_embedding: the layer that holds the token table, for heads tied to it.
        load_report: what came of loading a preset's weights; `None` if there were none to load.

    Raises:
        ValueError: if `sequence_length` is not between 1 and `config.max_position_embeddings`.
    """

    load_report = None

    def __init__(
        self,
        config: EncoderConfig,
        sequence_length: int | None = None,
        output_hidden_states: bool = False,
        output_attentions: bool = False,
        dtype=None,
        name: str | None = None,
    ):
        if not isinstance(config, EncoderConfig):
            raise ValueError(f"`config` must be an EncoderConfig. Received: {config!r}")
        longest = config.max_position_embeddings
        if sequence_length is not None and type(sequence_length) is not int:
            raise ValueError(
                f"`sequence_length` is a whole number, or None. Received: {sequence_length!r}"
            )
        if sequence_length is not None and not 1 <= sequence_length <= longest:
            raise ValueError(
                f"`sequence_length` must lie between 1 and the {longest} rows of the position "
                f"table (`max_position_embeddings`). Received: {sequence_length}"
            )
        policy = keras.dtype_policies.get(dtype or keras.config.dtype_policy())
        token_embedding = TokenEmbedding(
            config.vocab_size,
            config.embedding_size or config.hidden_size,
            embeddings_initializer=TruncatedNormal(config.initializer_range),
            dtype=policy,
            name="token_embedding",
        )
        needs_projection = config.embedding_size not in (None, config.hidden_size)
        embeddings = EmbeddingSum(
            config.max_position_embeddings,
            config.type_vocab_size,
            projection_size=config.hidden_size if needs_projection else None,
            dropout=config.hidden_dropout_prob,
            epsilon=config.layer_norm_eps,
            initializer_range=config.initializer_range,
            dtype=policy,
            name="embeddings",
        )
        blocks = [
            TransformerBlock(
                config.num_attention_heads,
                config.intermediate_size,
                activation=config.hidden_act,
                dropout=config.hidden_dropout_prob,
                attention_dropout=config.attention_probs_dropout_prob,
                epsilon=config.layer_norm_eps,
                initializer_range=config.initializer_range,
                dtype=policy,
                name=f"block_{number}",
            )
            for number in range(config.num_hidden_layers)
        ]
        pooler = Pooler(config.initializer_range, dtype=policy, name="pooler")

        inputs = encoder_inputs(sequence_length)
        x = embeddings(token_embedding(inputs["token_ids"]), inputs["segment_ids"])
        hidden_states, attentions = [x], []
        for block in blocks:
            x, probabilities = block(
                x,
                padding_mask=inputs["padding_mask"],
                causal=config.is_decoder,
                return_probabilities=True,
            )
            hidden_states.append(x)
            attentions.append(probabilities)
        pooled = pooler(x, inputs["padding_mask"] if config.is_decoder else None)
        outputs = {"sequence_output": x, "pooled_output": pooled}
        if output_hidden_states:
            outputs["hidden_states"] = hidden_states
        if output_attentions:
            outputs["attentions"] = attentions
        super().__init__(inputs=inputs, outputs=outputs, name=name)

        self.config = config
        self.sequence_length = sequence_length
        self.output_hidden_states = output_hidden_states
        self.output_attentions = output_attentions
        self.token_embedding = token_embedding
        self._policy = policy
        self._hidden_states = hidden_states
        self._reads = 0

    def read(self, inputs: dict, positions=None, pooled: bool = True) -> dict:
        """Wires the encoder to a head that reads but a few of its vectors.

        All that a last block does after its queries, keys and values is done for those vectors
        alone, which spares a head that reads one vector a row three quarters of that block, and
        gives the same as the outputs of the whole encoder. Of a functional model of your own that
        uses the encoder once more, by `read` or as a whole, Keras cannot load the `.keras` file:
        keep its weights.

        Args:
            inputs: symbolic inputs of the encoder, by name.
            positions: symbolic int32 tensor (B, P): the places that are read; `None` for none.
            pooled: whether the pooled vector is read.

        Returns:
            A dict of symbolic outputs: `sequence_output`, (B, P, H), if `positions` are given, and
            `pooled_output`, (B, H), if `pooled`.

        Raises:
            ValueError: if neither is read.
        """
        if positions is None and not pooled:
            raise ValueError("`positions` are needed where the pooled vector is not read.")
        reads_sequence = positions is not None
        blocks, causal = self.config.num_hidden_layers, self.config.is_decoder
        if pooled:
            positions = PooledPlace(causal)(inputs["padding_mask"], positions)
        places = keras.Input((None,), dtype="int32", name="places")
        if blocks == 0:
            x = keras.ops.take_along_axis(self._hidden_states[0], places[:, :, None], axis=1)
        else:
            x = self.get_layer(f"block_{blocks - 1}")(
                self._hidden_states[-2],
                padding_mask=self.input["padding_mask"],
                causal=causal,
                positions=places,
            )
        outputs = {}
        if reads_sequence:
            outputs["sequence_output"] = x[:, 1:] if pooled else x
        if pooled:
            outputs["pooled_output"] = self.get_layer("pooler")(x)
        # A name of its own, so that a model can read an encoder twice.
        self._reads += 1
        name = f"{self.name}_reader_{self._reads}"
        reader = keras.Model({**self.input, "places": places}, outputs, name=name)
        return reader({**inputs, "places": positions})

    def compile(self, *args, jit_compile=False, **kwargs):
        check_jit(jit_compile, self.sequence_length)
        super().compile(*args, jit_compile=jit_compile, **kwargs)

    def resized(self, vocab_size: int) -> "TransformerEncoder":
        """Returns the encoder with more rows in its token table, for tokens that were added.

        All weights are the same to the last bit; the new rows are drawn from the initializer. A
        head is not part of the encoder: make the task with the encoder that is returned.

        Args:
            vocab_size: rows of the new table, at least as many as now.

        Raises:
            ValueError: if they are fewer.
        """
        rows = self.config.vocab_size
        if type(vocab_size) is not int or vocab_size < rows:
            raise ValueError(
                f"`vocab_size` must be a whole number, {rows} or more: rows are added to the "
                f"token table, and none is taken out. Received: {vocab_size!r}"
            )
        config = self.get_config()
        config["config"] = {**config["config"], "vocab_size": vocab_size}
        with undrawn():
            encoder = type(self).from_config(config)
        for old, new in zip(self.variables, encoder.variables, strict=True):
            if old is not self.token_embedding.embeddings:
                new.assign(old)
        table = self.token_embedding.embeddings
        more = TruncatedNormal(self.config.initializer_range)(
            (vocab_size - rows, table.shape[1]), table.dtype
        )
        encoder.token_embedding.embeddings.assign(keras.ops.concatenate([table, more]))
        encoder.load_report = self.load_report
        return encoder

    def save_to_preset(self, filepath: str | os.PathLike, tokenizer=None) -> None:
        """Writes a Hugging Face folder of the encoder, whole or not at all.

        `from_preset` and `transformers` read it.

        Args:
            filepath: the folder. One that was written so is replaced; one that holds anything else
                is not.
            tokenizer: a `WordPieceTokenizer` to write too.

        Raises:
            ValueError: as `save_preset` does.
            ImportError: if safetensors is not installed.
        """
        save_preset(filepath, self, self.config, "BertModel", tokenizer=tokenizer)

    def get_config(self):
        return {
            "name": self.name,
            "frozen": frozen_layers(self),
            "config": self.config.to_dict(),
            "sequence_length": self.sequence_length,
            "output_hidden_states": self.output_hidden_states,
            "output_attentions": self.output_attentions,
            "dtype": keras.dtype_policies.serialize(self._policy),
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
        config = dict(config)
        frozen = config.pop("frozen", ())
        config["config"] = EncoderConfig.from_dict(config["config"])
        return freeze_layers(cls(**config), frozen)


def encoder_inputs(sequence_length: int | None) -> dict:
    """Returns the symbolic inputs of an encoder, each int32 (B, sequence_length)."""
    return {
        name: keras.Input((sequence_length,), dtype="int32", name=name)
        for name in ("token_ids", "segment_ids", "padding_mask")
    }


def frozen_layers(model: keras.Model) -> list[int]:
    """Returns the places of the layers that are not trainable, the model's own being 0.

    A functional model's config holds them, for a model that makes its layers itself.
    """
    return [place for place, layer in enumerate(model._flatten_layers()) if not layer.trainable]


def freeze_layers(model: keras.Model, places) -> keras.Model:
    """Makes just the layers at those places not trainable; returns the model."""
    places = set(places)
    # Parents come before their parts, to which they pass the setting on.
    for place, layer in enumerate(model._flatten_layers()):
        layer.trainable = place not in places
    return model


def check_jit(jit_compile, sequence_length: int | None) -> None:
    """Refuses XLA for a model of dynamic length.

    XLA drops the check of the length at run time and gives the last row of the position table for
    every row past it.

    Raises:
        ValueError: if `jit_compile` is true and `sequence_length` is `None`.
    """
    if jit_compile is True and sequence_length is None:
        raise ValueError(
            "`jit_compile=True` needs a fixed length, since XLA cannot check a dynamic one "
            "against the position table: make the encoder with `sequence_length=...`."
        )
