"""A text to a vector."""

from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf

from keras_bert_zoo.encoders.transformer import TransformerEncoder, encoder_inputs
from keras_bert_zoo.layers.pooling import SequencePooling
from keras_bert_zoo.tasks.base import Task
from keras_bert_zoo.tasks.heads import checked_layers
from keras_bert_zoo.tasks.inputs import holds_text, text_columns, text_dataset
from keras_bert_zoo.tasks.sentence_transformers import (
    read_sentence_transformer,
    write_sentence_transformer,
)
from keras_bert_zoo.text.preprocessor import TextPreprocessor

# Batches that are sorted by length together, which bounds what is in memory.
WINDOW = 128
# From how many batches on `embed` shows a progress bar unasked.
LONG_WORK = 100
_COMBINATIONS = ("concat", "sum")


@keras.saving.register_keras_serializable(package="keras_bert_zoo")
class TextEmbedder(Task):
    """Turns a text, or a pair of texts, into one vector.

    The vectors of the tokens are pooled by `SequencePooling`. Outputs are float32 (B, H), or
    (B, n * H) for `n` layers side by side. There is no loss: it is not trained.

    An exported model returns `embedding`.

    Args:
        encoder: the encoder.
        preprocessor: a `TextPreprocessor`; `None` if ids will be fed.
        pooling: `"mean"` or `"max"` over the real tokens, or `"cls"`, the vector of the first one.
        normalize: whether vectors have length 1.
        layers: places of the states to pool: 0 is the sum of embeddings, 1 the first block, -1
            the last one. They need an encoder made with `output_hidden_states=True`. `None` for
            the last block alone.
        combine: how several layers become one, token by token: `"concat"`, side by side, or
            `"sum"` (arXiv 1810.04805, section 5.3, tries both).
        pair: as in `TextClassifier`.

    Raises:
        ValueError: if there is no such pooling or layer, or the encoder does not give its layers.

    Example:

    ```python
    task = kbz.TextEmbedder(encoder, preprocessor=preprocessor)
    vectors = task.embed(["a good film", "a fine film", "tea"])
    vectors @ vectors.T
    ```
    """

    architecture = "BertModel"
    reads_pooler = False

    def __init__(
        self,
        encoder: TransformerEncoder,
        preprocessor: TextPreprocessor | None = None,
        pooling: str = "mean",
        normalize: bool = True,
        layers: Sequence[int] | None = None,
        combine: str = "concat",
        **kwargs,
    ):
        if combine not in _COMBINATIONS:
            raise ValueError(
                f"`combine` must be one of {', '.join(_COMBINATIONS)}. Received: {combine!r}"
            )
        layers = None if layers is None else checked_layers(encoder, layers)
        inputs = encoder_inputs(encoder.sequence_length)
        encoded = encoder(inputs)
        vectors = encoded["sequence_output"]
        if layers is not None:
            states = [encoded["hidden_states"][place] for place in layers]
            if combine == "sum":
                vectors = sum(states[1:], states[0])
            else:
                vectors = states[0] if len(states) == 1 else keras.ops.concatenate(states, -1)
        pool = SequencePooling(pooling, normalize, dtype="float32", name="pooling")
        outputs = pool(vectors, inputs["padding_mask"])
        super().__init__(encoder, preprocessor, inputs, outputs, **kwargs)
        self.pooling = pooling
        self.normalize = normalize
        self.pooled_layers = layers
        self.combine = combine

    def loss_terms(self, x, y, outputs, sample_weight):
        raise ValueError(
            f"{type(self).__name__} has no loss and is not trained or evaluated: train another "
            "task, such as TextClassifier, on the same encoder."
        )

    def fit(self, *args, **kwargs):
        """Raises ValueError: there is no loss."""
        self.loss_terms(None, None, None, None)

    evaluate = fit

    def embed(self, texts, batch_size: int = 32, verbose="auto") -> np.ndarray:
        """Turns many texts into vectors, the same ones as `predict`, but faster.

        Texts of like length go together, in batches no longer than their longest text.

        Args:
            texts: texts or pairs, as `predict` takes them, but no dataset.
            batch_size: texts a batch.
            verbose: 1 or true for a progress bar, 2 for a line, 0 for none; by default a bar if
                there are a hundred batches or more.

        Returns:
            A float32 array, (texts, width of the output), in the order given.

        Raises:
            ValueError: if the task has no preprocessor, or what is given are not texts.
        """
        is_empty = isinstance(texts, (list, np.ndarray)) and len(texts) == 0
        if isinstance(texts, tf.data.Dataset) or not (holds_text(texts) or is_empty):
            raise ValueError(
                "`embed` takes a list of texts; `predict` takes datasets and ids. Received: "
                f"{type(texts).__name__}"
            )
        if not isinstance(batch_size, int) or batch_size < 1:
            raise ValueError(f"`batch_size` must be at least 1. Received: {batch_size}")
        self._is_raw(texts)  # Refuses texts without a preprocessor.
        columns = text_columns(texts)
        count = len(tf.nest.flatten(columns)[0])
        vectors = np.zeros([count, self.output.shape[1]], np.float32)
        if count == 0:
            return vectors
        batches = -(-count // batch_size)
        if verbose == "auto":
            verbose = batches >= LONG_WORK
        bar = keras.utils.Progbar(batches, verbose=int(verbose), unit_name="batch")
        done = 0
        windows = text_dataset(columns, batch_size=batch_size * WINDOW)
        for (window,) in self._read(windows).prefetch(1):
            rows = {name: tensor.numpy() for name, tensor in window.items()}
            lengths = rows["padding_mask"].sum(axis=1)
            order = np.argsort(-lengths, kind="stable")
            for first in range(0, len(order), batch_size):
                places = order[first : first + batch_size]
                # A multiple of 8 suits the hardware, and makes for few shapes.
                length = self.encoder.sequence_length or -(-lengths[places[0]] // 8) * 8
                batch = {name: tf.constant(part[places, :length]) for name, part in rows.items()}
                vectors[done + places] = self._embed_ids(batch).numpy()
                bar.add(1)
            done += len(order)
        return vectors

    @property
    def _embed_ids(self):
        """The model as a graph for any length; `predict_on_batch` would do it on each replica."""
        if "_embed_function" not in self.__dict__:
            spec = tf.TensorSpec((None, self.encoder.sequence_length), tf.int32)
            self.__dict__["_embed_function"] = tf.function(
                lambda ids: self(ids, training=False),
                input_signature=[dict.fromkeys(self.input, spec)],
                autograph=False,
            )
        return self.__dict__["_embed_function"]

    def serve(self, ids):
        return {"embedding": self(ids, training=False)}

    @classmethod
    def preset_arguments(cls, folder, classes, given):
        told = {} if folder.path is None else read_sentence_transformer(folder.path)
        told = {key: told[key] for key in ("pooling", "normalize") if key in told}
        return told | given, {}

    @classmethod
    def encoder_arguments(cls, arguments):
        return {"output_hidden_states": arguments.get("layers") is not None}

    @classmethod
    def usual_length(cls, folder):
        told = {} if folder.path is None else read_sentence_transformer(folder.path)
        return told.get("sequence_length") or super().usual_length(folder)

    @property
    def has_pooler(self):
        # One that no checkpoint gave is made of random numbers, which are not to look trained.
        return self.load_report is None or "pooler/dense/kernel" in self.load_report.loaded

    def write_preset_files(self, folder):
        if self.pooled_layers is not None:
            raise ValueError(
                "A Hugging Face folder has no place for `layers`: save the task with `save`, to a "
                f".keras file. Received: layers={self.pooled_layers}"
            )
        length = self.preprocessor and self.preprocessor.sequence_length
        write_sentence_transformer(
            folder, self.pooling, self.normalize, self.output.shape[-1], length
        )

    def get_config(self):
        return super().get_config() | {
            "pooling": self.pooling,
            "normalize": self.normalize,
            "layers": self.pooled_layers,
            "combine": self.combine,
        }
