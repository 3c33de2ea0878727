"""Masked language modelling: predicting words that were taken out."""

import keras
import numpy as np
import tensorflow as tf

from keras_bert_zoo.encoders.transformer import TransformerEncoder, encoder_inputs
from keras_bert_zoo.layers.masked_lm import MaskedLMTransform, OutputBias
from keras_bert_zoo.tasks.base import Task
from keras_bert_zoo.tasks.cross_entropy import cross_entropy
from keras_bert_zoo.tasks.inputs import text_columns
from keras_bert_zoo.tasks.step import same_class, weighed
from keras_bert_zoo.text.keyed_random import pass_key
from keras_bert_zoo.text.masking import DynamicMasker
from keras_bert_zoo.text.preprocessor import TextPreprocessor

EXPORTED_CANDIDATES = 5


@keras.saving.register_keras_serializable(package="keras_bert_zoo")
class MaskedLM(Task):
    """Predicts the tokens at masked positions (arXiv 1810.04805, section 3.1, task 1).

    Inputs are the encoder's and `masked_positions`, int32 (B, P). The output is a dict of
    `masked_lm_logits`, float32 (B, P, V): `LayerNorm(activation(W x + b))` of the vectors at these
    positions, times the transposed token table of the encoder, plus a bias.

    `fit` takes texts alone, which it masks anew in each epoch, or batches of ids and targets
    `{"masked_ids": int32 (B, P), "masked_weights": float32 (B, P)}`, the weight being 0 at unused
    places. The loss is the mean cross-entropy over all masked tokens of the global batch.

    An exported model fills in: it returns `tokens`, strings (B, P, 5), and `probabilities`, float32
    (B, P, 5), of the best candidates for each `[MASK]`; "" and 0 past a row's last one.

    Over a causal encoder (`is_decoder` in its config) it is a left-to-right language model. Feed it
    ids of whole texts, nothing masked, with `masked_positions` 0 to n - 2 of a row's n tokens and,
    as `masked_ids`, the tokens that follow them, as `pretraining_dataset(..., left_to_right=True)`
    makes them. It has no gaps to fill: `fit` on texts alone, `fill` and `export` raise a
    ValueError.

    Args:
        encoder: the encoder.
        preprocessor: a `TextPreprocessor`; `None` if ids will be fed.
        seed: seed of the masks that are drawn over texts.

    Example:

    ```python
    task = kbz.MaskedLM(encoder, preprocessor=preprocessor)
    task.fill(["Paris is the [MASK] of France."])[0][0][0]["token"]
    ```
    """

    reads_pooler = False

    def __init__(
        self,
        encoder: TransformerEncoder,
        preprocessor: TextPreprocessor | None = None,
        seed: int = 0,
        **kwargs,
    ):
        inputs, _, logits = masked_lm_graph(encoder, pooled=False)
        super().__init__(
            encoder,
            preprocessor,
            inputs,
            {"masked_lm_logits": logits},
            loss_names=("masked_lm_loss",),
            score_names=("masked_lm_accuracy",),
            **({"pair": False} | kwargs),
        )
        self.seed = seed

    @property
    def architecture(self):
        return "BertLMHeadModel" if self.encoder.config.is_decoder else "BertForMaskedLM"

    def loss_terms(self, x, y, outputs, sample_weight):
        if sample_weight is not None:
            raise ValueError(
                f"{type(self).__name__} weighs tokens by `masked_weights` among the targets, and "
                "`sample_weight` was given."
            )
        if not isinstance(y, dict) or not {"masked_ids", "masked_weights"} <= set(y):
            raise ValueError(
                f"{self.name} is trained on texts alone, or on ids with a dict of `masked_ids` and "
                f"`masked_weights` as targets. Received targets: {y!r:.200}"
            )
        losses = cross_entropy(outputs["masked_lm_logits"], y["masked_ids"])
        return {"masked_lm_loss": weighed(losses, y["masked_weights"])}

    def score_terms(self, x, y, outputs, sample_weight):
        hits = same_class(outputs["masked_lm_logits"], y["masked_ids"])
        return {"masked_lm_accuracy": weighed(hits, y["masked_weights"])}

    def prepare(self, dataset, training=False):
        self._check_gaps_make_sense()
        if len(dataset.element_spec) > 1:
            raise ValueError(
                f"{type(self).__name__} makes its targets of the texts themselves, and labels "
                "came with them."
            )
        masker = DynamicMasker.for_tokenizer(
            self.tokenizer, self.preprocessor.sequence_length, seed=self.seed
        )

        # A further `fit` goes on from where the optimizer stands, not from the first masks.
        trained = int(self.optimizer.iterations) if training else 0

        def mask_batch(again, numbered):
            number, batch = numbered
            ids = self.preprocessor(batch[0])
            # Batches are far enough apart that no two rows have the same number.
            rows = number * 2**24 + tf.range(tf.shape(ids["token_ids"])[0], dtype=tf.int64)
            masked = masker(ids["token_ids"], ids["padding_mask"], again + trained, rows)
            targets = {name: masked.pop(name) for name in ("masked_ids", "masked_weights")}
            return ids | masked, targets

        # New masks in each pass of training; the same in every evaluation.
        same = tf.data.Dataset.from_tensors(tf.constant(0, tf.int64)).repeat()
        passes = pass_key(self.seed) if training else same
        numbered = tf.data.Dataset.zip(passes, dataset.enumerate())
        return numbered.map(mask_batch, num_parallel_calls=tf.data.AUTOTUNE)

    def fill(self, texts, top_k: int = 5, batch_size: int = 32) -> list[list[list[dict]]]:
        """Fills each `[MASK]` in texts.

        Args:
            texts: strings, each with one `[MASK]` or more.
            top_k: candidates for each.
            batch_size: texts a batch.

        Returns:
            For each text, for each `[MASK]` in order, its candidates, best first: dicts of
            `token` and `probability`.

        Raises:
            ValueError: if the encoder is causal, the task has no preprocessor, or a text has no
                `[MASK]` within the length that texts are cut to.
        """
        self._check_gaps_make_sense()
        if self.preprocessor is None:
            raise ValueError(f"{self.name} has no preprocessor, so it cannot read texts.")
        if not isinstance(top_k, int) or top_k < 1:
            raise ValueError(f"`top_k` must be a whole number from 1. Received: {top_k!r}")
        columns = text_columns(texts)
        if isinstance(columns, dict) and set(columns) == {"text"}:
            columns = columns["text"]
        if not isinstance(columns, np.ndarray):
            raise ValueError("`fill` takes single texts, and pairs were given.")
        texts = [t.decode() if isinstance(t, bytes) else t for t in columns]
        if not texts:
            return []
        ids = self.read_texts(texts)
        positions, counts = self._gaps(ids["token_ids"])
        counts = counts.numpy()
        for text, count in zip(texts, counts, strict=True):
            written = text.count("[MASK]")
            if count == 0 or count < written:
                raise ValueError(
                    f"Each text needs a [MASK], and all of them among its first "
                    f"{self.preprocessor.sequence_length} tokens. Here are {count} of {written}: "
                    f"{text!r}"
                )
        logits = self.predict(
            ids | {"masked_positions": positions}, batch_size=batch_size, verbose=0
        )["masked_lm_logits"]
        best = self._best(logits, top_k)
        return [
            [
                [
                    {"token": self.tokenizer.id_to_token(int(token)), "probability": float(share)}
                    for token, share in zip(*candidates, strict=True)
                ]
                for candidates in zip(tokens[:count], shares[:count], strict=True)
            ]
            for tokens, shares, count in zip(
                best.indices.numpy(), best.values.numpy(), counts, strict=True
            )
        ]

    def read_texts(self, texts):
        # The tokenizer that knows a written [MASK] is made once. It stands in no attribute that
        # the .keras format looks through, or the file would hold the vocabulary twice.
        if "_reader" not in self.__dict__:
            tokenizer = self.tokenizer.recognising_special_tokens()
            reader = TextPreprocessor(
                tokenizer, self.preprocessor.sequence_length, self.preprocessor.padding
            )
            self.__dict__["_reader"] = reader.__call__
        return self._reader(texts)

    def serve(self, ids):
        self._check_gaps_make_sense()
        if self.preprocessor is None:
            raise ValueError(
                f"{self.name} has no preprocessor, so it knows no [MASK] and no words."
            )
        positions, counts = self._gaps(ids["token_ids"])
        logits = self(ids | {"masked_positions": positions}, training=False)["masked_lm_logits"]
        best = self._best(logits, EXPORTED_CANDIDATES)
        is_gap = tf.sequence_mask(counts, tf.shape(positions)[1])[..., tf.newaxis]
        vocabulary = tf.constant(self.tokenizer.vocabulary)
        return {
            "tokens": tf.where(is_gap, tf.gather(vocabulary, best.indices), ""),
            "probabilities": tf.where(is_gap, best.values, 0.0),
        }

    def _check_gaps_make_sense(self):
        if self.encoder.config.is_decoder:
            raise ValueError(
                f"{self.name} has a causal encoder (`is_decoder=True`), which predicts next tokens "
                "and sees nothing after a [MASK]: feed ids with `masked_positions` and read "
                "`masked_lm_logits`, or make the encoder with `is_decoder=False` to fill gaps."
            )

    def _best(self, logits, count):
        """The most probable tokens; a table may have more rows than the vocabulary has tokens."""
        size = self.tokenizer.vocabulary_size
        return tf.math.top_k(tf.nn.softmax(logits[..., :size]), min(count, size))

    def _gaps(self, token_ids):
        """Where `[MASK]` stands, int32 (B, P), 0 past the last one; and how many, int32 (B,)."""
        is_mask = tf.equal(token_ids, self.tokenizer.mask_id)
        places = tf.broadcast_to(tf.range(tf.shape(is_mask)[1]), tf.shape(is_mask))
        counts = tf.reduce_sum(tf.cast(is_mask, tf.int32), axis=1)
        return tf.ragged.boolean_mask(places, is_mask).to_tensor(), counts

    def get_config(self):
        return super().get_config() | {"seed": self.seed}


def masked_lm_graph(encoder: TransformerEncoder, pooled: bool):
    """Wires the masked-language-model head to an encoder.

    Args:
        encoder: the encoder.
        pooled: whether the pooled vector is read too.

    Returns:
        `(inputs, encoded, logits)`: the symbolic inputs by name, what `encoder.read` gives, and
        the logits, float32 (B, P, V).
    """
    config = encoder.config
    inputs = encoder_inputs(encoder.sequence_length)
    positions = keras.Input((None,), dtype="int32", name="masked_positions")
    encoded = encoder.read(inputs, positions, pooled)
    inputs = inputs | {"masked_positions": positions}
    policy = encoder.token_embedding.dtype_policy
    transform = MaskedLMTransform(
        config.embedding_size or config.hidden_size,
        activation=config.hidden_act,
        epsilon=config.layer_norm_eps,
        initializer_range=config.initializer_range,
        dtype=policy,
        name="masked_lm_transform",
    )
    x = transform(encoded["sequence_output"])
    x = encoder.token_embedding(x, reverse=True)
    # Logits and loss are float32 under any policy.
    return inputs, encoded, OutputBias(dtype="float32", name="masked_lm_bias")(x)
