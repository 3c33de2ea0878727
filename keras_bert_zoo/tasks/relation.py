"""How two entities of a sentence are related: R-BERT."""

from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf

from keras_bert_zoo.encoders.transformer import TransformerEncoder, encoder_inputs
from keras_bert_zoo.layers.dropout import Dropout
from keras_bert_zoo.layers.initializers import TruncatedNormal
from keras_bert_zoo.layers.pooling import SequencePooling
from keras_bert_zoo.tasks.base import Task
from keras_bert_zoo.tasks.classifier import TextClassifier
from keras_bert_zoo.tasks.heads import dense_head
from keras_bert_zoo.tasks.inputs import inputs_of, text_columns
from keras_bert_zoo.tasks.labels import assertions, checked_labels
from keras_bert_zoo.tasks.preset_heads import head_dropout
from keras_bert_zoo.text.entity_rows import MASKS, SPANS, entity_rows
from keras_bert_zoo.text.entity_tags import check_entities, read_tags
from keras_bert_zoo.text.preprocessor import TextPreprocessor

MARKERS = ("$", "#")
COLUMNS = ("text", *SPANS)


@keras.saving.register_keras_serializable(package="keras_bert_zoo")
class RelationClassifier(TextClassifier):
    """Says how two entities of a text are related (R-BERT, Wu & He 2019, arXiv 1905.08284).

    `$` stands before and behind entity 1, and `#` before and behind entity 2. With C the vector of
    `[CLS]`, the encoder's last without the pooler, and E1, E2 the means of the vectors of the
    entities' pieces, without the markers (equation 1 counts from the entity's first to its last):

        h0 = W0 tanh(C) + b0;  h1 = W1 tanh(E1) + b1;  h2 = W1 tanh(E2) + b1
        logits = W [h0; h1; h2] + b

    W1 and b1 are the same for both. Dropout comes right before each product. Unlike the paper's
    input, a row ends with `[SEP]`, as in pretraining.

    Inputs are the encoder's and `entity_1_mask`, `entity_2_mask`, all int32 (B, L). Outputs are
    float32 logits (B, labels).

    Texts are a list of strings with tags, `"The <e1>kitchen</e1> of the <e2>house</e2>."`; or a
    dict, or a `tf.data.Dataset` of dicts, of `text` without tags and `entity_1_start`,
    `entity_1_end`, `entity_2_start`, `entity_2_end`, in characters. Labels are names, or numbers
    from 0. A text that is too long is cut around its entities, see
    `keras_bert_zoo.text.entity_rows.entity_rows`.

    An exported model takes the five columns of that dict, and returns what that of a
    `TextClassifier` does.

    Args:
        encoder: the encoder.
        labels: the labels' names, in the order of the logits.
        preprocessor: a `TextPreprocessor`; `None` if ids will be fed.
        markers: whether to put `$` and `#` around the entities.
        entity_vectors: whether the entities' vectors are part of the head; without, the logits are
            `W h0 + b`.
        dropout: dropout rate before each product of the head.

    Raises:
        ValueError: if there are fewer than two labels, one stands twice, or the vocabulary lacks a
            marker.

    Example:

    ```python
    task = kbz.RelationClassifier(encoder, ["Other", "Part-Whole"], preprocessor)
    task.compile(kbz.adamw(2e-5, total_steps=300, warmup_steps=30), clip_norm=1.0)
    task.fit(["the <e1>cup</e1> of a <e2>film</e2>", "a <e1>cup</e1> of <e2>tea</e2>"], [0, 1])
    task.classify(["a cup of tea"], [((2, 5), (9, 12))])[0]["label"]
    ```
    """

    reads_pooler = False

    def __init__(
        self,
        encoder: TransformerEncoder,
        labels: Sequence[str],
        preprocessor: TextPreprocessor | None = None,
        markers: bool = True,
        entity_vectors: bool = True,
        dropout: float = 0.1,
        **kwargs,
    ):
        labels = checked_labels(labels)
        if markers and preprocessor is not None:
            _check_markers(preprocessor)
        length = encoder.sequence_length
        inputs = encoder_inputs(length)
        vectors = encoder(dict(inputs))["sequence_output"]
        inputs |= {name: keras.Input((length,), dtype="int32", name=name) for name in MASKS}
        parts = [_head_part(encoder, "cls", dropout)(keras.ops.cast(vectors[:, 0], "float32"))]
        if entity_vectors:
            mean = SequencePooling(dtype="float32", name="entity_mean")
            part = _head_part(encoder, "entity", dropout)
            parts += [part(mean(vectors, inputs[name])) for name in MASKS]
        # Not `logits`, which is the name of a classifier in the files of others.
        outputs = dense_head(
            encoder, keras.ops.concatenate(parts, axis=-1), len(labels), dropout, "relation_logits"
        )
        # Past the head of a `TextClassifier`.
        Task.__init__(
            self,
            encoder,
            preprocessor,
            inputs,
            outputs,
            score_names=(self.score_name,),
            **({"pair": False} | kwargs),
        )
        self.labels = labels
        self.markers = bool(markers)
        self.entity_vectors = bool(entity_vectors)
        self.dropout_rate = dropout

    def loss_terms(self, x, y, outputs, sample_weight):
        checks = []
        for name in MASKS:
            known = tf.reduce_any(x[name] > 0, axis=-1)
            rows = tf.range(tf.shape(known)[0])
            checks += assertions(known, f"An entity has no tokens: `{name}` is 0 in rows", rows)
        with tf.control_dependencies(checks):
            outputs = tf.identity(outputs)
        return super().loss_terms(x, y, outputs, sample_weight)

    def columns(self, texts: Sequence[str], entities: Sequence | None = None) -> dict:
        """Returns texts and their entities as the columns that `fit` and `predict` take.

        Args:
            texts: the texts.
            entities: for each text a pair of spans, `((start, end), (start, end))`, of entity 1
                and entity 2 in characters; `None` if they are marked by tags in the texts.

        Raises:
            ValueError: if there are not as many of both, or two spans are not two entities; the
                message names the text.
        """
        texts = text_columns({"text": list(texts)})["text"]
        texts = [text.decode() if isinstance(text, bytes) else text for text in texts]
        if entities is not None and len(entities) != len(texts):
            raise ValueError(
                "There must be a pair of entities for each text. Received "
                f"{len(texts)} texts and {len(entities)} pairs."
            )
        rows = []
        for number, text in enumerate(texts):
            try:
                if entities is None:
                    text, *pair = read_tags(text)
                else:
                    pair = [tuple(map(int, span)) for span in entities[number]]
                    check_entities(text, *pair)
            except (TypeError, ValueError) as error:
                raise ValueError(f"Text {number}: {error}") from None
            rows.append((text, *pair[0], *pair[1]))
        texts, *spans = zip(*rows, strict=True) if rows else [()] * 5
        columns = {"text": np.array(texts, object) if rows else np.zeros([0], "S1")}
        return columns | {
            name: np.array(span, np.int32) for name, span in zip(SPANS, spans, strict=True)
        }

    def read_columns(self, x, y=None):
        y = np.asarray(y) if isinstance(y, list) else y
        if inputs_of(x) is not x or not self._is_raw(x):
            return x, y
        if isinstance(x, (dict, tuple)):
            _check_columns(x)
            spans = [np.asarray(x[name]) for name in SPANS]
            pairs = [((a, b), (c, d)) for a, b, c, d in zip(*spans, strict=True)]
            x = self.columns(x["text"], pairs)
        else:
            x = self.columns([x] if isinstance(x, (str, bytes)) else x)
        return {name: rows.numpy() for name, rows in self.read_texts(x).items()}, y

    def read_texts(self, texts):
        _check_columns(texts)
        return entity_rows(
            self.tokenizer,
            tf.convert_to_tensor(texts["text"], tf.string),
            [tf.convert_to_tensor(texts[name]) for name in SPANS],
            MARKERS if self.markers else None,
            self.preprocessor.sequence_length,
            self.preprocessor.padding,
        )

    def prepare_batch(self, x, y=None, sample_weight=None):
        if "token_ids" not in x:
            x = self.read_texts(x)
        return super().prepare_batch(x, y, sample_weight)

    def classify(self, texts, entities: Sequence | None = None, batch_size: int | None = None):
        """Gives the relation in each text, and the probabilities of all.

        Args:
            texts: texts; or anything that `predict` takes, without `entities`.
            entities: as `columns` takes them; `None` if they are marked by tags in the texts.
            batch_size: examples a batch, 32 by default.

        Returns:
            A dict for each text: `label`, `probability` (the label's) and `probabilities` (by
            label).
        """
        x = texts if entities is None else self.columns(texts, entities)
        return super().classify(x, batch_size)

    def signatures(self):
        names = tuple(self.input)
        id_specs = [tf.TensorSpec(self.input[name].shape, tf.int32, name) for name in names]
        dtypes = [tf.string] + [tf.int32] * len(SPANS)
        specs = [tf.TensorSpec((None,), d, n) for n, d in zip(COLUMNS, dtypes, strict=True)]

        def from_ids(*ids):
            return self.serve(dict(zip(names, ids, strict=True)))

        def from_text(*columns):
            return self.serve(self.read_texts(dict(zip(COLUMNS, columns, strict=True))))

        signatures = {"token_ids": (from_ids, id_specs)}
        if self.preprocessor is None:
            return signatures
        return {"serving_default": (from_text, specs)} | signatures

    @classmethod
    def preset_arguments(cls, folder, classes, given):
        given = dict(given)
        if given.get("labels") is None:
            raise ValueError(
                f"{cls.__name__} finds no labels of its own in a preset: pass `labels=[...]`, such "
                "as `keras_bert_zoo.metrics.relations.LABELS`."
            )
        if folder.path is not None:
            given.setdefault("dropout", head_dropout(folder))
        return given, {}

    def save_to_preset(self, filepath):
        """Raises ValueError: Hugging Face has no class of such a head, and so no place for it."""
        raise ValueError(
            f"Hugging Face has no class of R-BERT, so a folder has no place for the head of "
            f"{self.name}: `save` writes all of it to a .keras file, and `task.encoder."
            "save_to_preset(folder, task.tokenizer)` the encoder without the head."
        )

    def get_config(self):
        return super().get_config() | {
            "markers": self.markers,
            "entity_vectors": self.entity_vectors,
        }


def _head_part(encoder, name, dropout):
    """`W dropout(tanh(v)) + b` of vectors, float32 (B, H); the same W and b in every call."""
    dense = keras.layers.Dense(
        encoder.config.hidden_size,
        kernel_initializer=TruncatedNormal(encoder.config.initializer_range),
        dtype="float32",
        name=f"{name}_dense",
    )

    def part(vectors):
        return dense(Dropout(dropout, dtype="float32")(keras.ops.tanh(vectors)))

    return part


def _check_markers(preprocessor):
    tokenizer = preprocessor.tokenizer
    missing = tokenizer.has_vocabulary and {*MARKERS} - {*tokenizer.vocabulary}
    if missing:
        raise ValueError(
            f"The vocabulary has no {' and no '.join(sorted(missing))} to mark the entities with: "
            "leave the marks out (`markers=False`), or take a vocabulary with these signs."
        )


def _check_columns(x):
    if not isinstance(x, dict) or set(x) != set(COLUMNS):
        received = ", ".join(x) if isinstance(x, dict) else f"{x!r:.200}"
        raise ValueError(
            "Texts with two entities are strings with <e1>...</e1> and <e2>...</e2>; or a dict, or "
            f"a dataset of dicts, of {', '.join(COLUMNS)}. Received: {received}"
        )
