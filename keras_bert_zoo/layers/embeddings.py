"""The token table; and position, segment, normalization: what makes a block's input of it."""

import keras
import tensorflow as tf
from keras import ops

from keras_bert_zoo.layers.dropout import Dropout
from keras_bert_zoo.layers.initializers import TruncatedNormal


@keras.saving.register_keras_serializable(package="keras_bert_zoo")
class TokenEmbedding(keras.layers.ReversibleEmbedding):
    """`keras.layers.ReversibleEmbedding`, but no id is past its table in silence.

    A lookup past the table fails on a CPU. On a GPU it gives zeros, and under XLA the last row,
    without a word. Here it fails on each of them before the lookup, but under XLA, which drops
    checks: there the vectors of such ids are NaN, and so is what comes of them.

    Raises:
        tf.errors.InvalidArgumentError: when run, if an id is negative or past the table.
    """

    def call(self, inputs, reverse=False):
        if reverse:
            return self._product(inputs)
        known = (inputs >= 0) & (inputs < self.input_dim)
        message = (
            f"Token ids must be rows of the token table, 0 to {self.input_dim - 1} (`vocab_size`): "
            "see that tokenizer and encoder belong together; for added tokens "
            "`encoder.resized(tokenizer.vocabulary_size)` makes rows. Received:"
        )
        check = tf.Assert(tf.reduce_all(known), [message, tf.boolean_mask(inputs, ~known)])
        # It is None where it has been done at once.
        with tf.control_dependencies([] if check is None else [check]):
            ids = tf.identity(inputs)
        vectors = super().call(ids)
        if inputs.shape[-1] is None:
            return vectors  # XLA is refused for these.
        return tf.where(known[..., tf.newaxis], vectors, tf.constant(float("nan"), vectors.dtype))

    def _product(self, vectors):
        """The product with the transposed table, which nothing transposes here or in its gradient.

        The base class does, and the gradient of a table of 30,522 rows is slow to transpose.
        """
        if not self.tie_weights or self.logit_soft_cap is not None or self.reverse_dtype:
            return super().call(vectors, reverse=True)
        rows = tf.reshape(vectors, (-1, self.output_dim))
        table = ops.cast(self.embeddings, vectors.dtype)
        logits = tf.matmul(rows, table, transpose_b=True)
        return tf.reshape(logits, (*ops.shape(vectors)[:-1], self.input_dim))


@keras.saving.register_keras_serializable(package="keras_bert_zoo")
class EmbeddingSum(keras.layers.Layer):
    """Adds position and segment vectors to token vectors, normalizes, drops out and projects.

    `LayerNorm(token + position[0 .. L-1] + segment[segment_ids])`, then dropout, then, where
    `projection_size` is given, a dense layer to it (BERT, arXiv 1810.04805, section 3; the
    projection is ALBERT's factorization, arXiv 1909.11942, section 3.1).

    The token table is not in here: a masked-language-model head needs it too, so it is a layer of
    its own that both call.

    Args:
        max_positions: rows of the position table.
        num_segments: rows of the segment table; 0 for none.
        projection_size: width of the output; `None` for the width of the token vectors.
        dropout: dropout rate.
        epsilon: epsilon of the layer normalization.
        initializer_range: standard deviation of the truncated normal initializer.

    Call arguments:
        token_vectors: float tensor (B, L, E).
        segment_ids: int tensor (B, L); left out where `num_segments` is 0.

    Returns:
        A float tensor (B, L, H).

    Raises:
        ValueError: if the length is known and exceeds `max_positions`. Where it is dynamic, the
            graph raises `tf.errors.InvalidArgumentError` when run.
    """

    def __init__(
        self,
        max_positions: int,
        num_segments: int = 2,
        projection_size: int | None = None,
        dropout: float = 0.1,
        epsilon: float = 1e-12,
        initializer_range: float = 0.02,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.max_positions = max_positions
        self.num_segments = num_segments
        self.projection_size = projection_size
        self.dropout_rate = dropout
        self.epsilon = epsilon
        self.initializer_range = initializer_range
        self.layer_norm = keras.layers.LayerNormalization(
            epsilon=epsilon, dtype=self.dtype_policy, name="layer_norm"
        )
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")
        self.projection = None
        if projection_size is not None:
            self.projection = keras.layers.Dense(
                projection_size,
                kernel_initializer=TruncatedNormal(initializer_range),
                dtype=self.dtype_policy,
                name="projection",
            )

    def build(self, token_vectors_shape, segment_ids_shape=None):
        width = token_vectors_shape[-1]
        self._check_length(token_vectors_shape[1])
        if token_vectors_shape[1] is None:
            self.supports_jit = False  # XLA drops the check of a dynamic length.
        self.position_table = self.add_weight(
            name="position_table",
            shape=(self.max_positions, width),
            initializer=TruncatedNormal(self.initializer_range),
        )
        if self.num_segments:
            self.segment_table = self.add_weight(
                name="segment_table",
                shape=(self.num_segments, width),
                initializer=TruncatedNormal(self.initializer_range),
            )
        self.layer_norm.build(token_vectors_shape)
        if self.projection is not None:
            self.projection.build(token_vectors_shape)

    def call(self, token_vectors, segment_ids=None, training=None):
        x = token_vectors + self._positions(token_vectors)
        if self.num_segments:
            x = x + ops.take(self.segment_table, segment_ids, axis=0)
        x = self.dropout(self.layer_norm(x), training=training)
        return x if self.projection is None else self.projection(x)

    def _positions(self, token_vectors):
        length = token_vectors.shape[1]
        if length is None:
            length = self._checked_length(token_vectors)
        else:
            self._check_length(length)
        # A slice past the table fails everywhere; a gather gives a silent row under XLA.
        return tf.slice(ops.convert_to_tensor(self.position_table), [0, 0], [length, -1])

    def _checked_length(self, token_vectors):
        length = tf.shape(token_vectors)[1]
        check = tf.debugging.assert_less_equal(
            length,
            self.max_positions,
            message=f"The input is longer than the {self.max_positions} rows of the position "
            "table (`max_position_embeddings`). Its length and the rows are",
        )
        with tf.control_dependencies([check] if check is not None else []):
            return tf.identity(length)

    def _check_length(self, length):
        if length is not None and length > self.max_positions:
            raise ValueError(
                f"The input has {length} tokens, but the position table has only "
                f"{self.max_positions} rows (`max_position_embeddings`): cut the input, or split "
                "it into windows."
            )

    def compute_output_shape(self, token_vectors_shape, segment_ids_shape=None):
        width = self.projection_size or token_vectors_shape[-1]
        return (*token_vectors_shape[:-1], width)

    def get_config(self):
        return super().get_config() | {
            "max_positions": self.max_positions,
            "num_segments": self.num_segments,
            "projection_size": self.projection_size,
            "dropout": self.dropout_rate,
            "epsilon": self.epsilon,
            "initializer_range": self.initializer_range,
        }
