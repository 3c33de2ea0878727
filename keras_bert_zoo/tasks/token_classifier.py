"""A label for each token of a text, or for each word of a sentence."""

from collections.abc import Sequence

import keras

from keras_bert_zoo.encoders.transformer import TransformerEncoder, encoder_inputs
from keras_bert_zoo.tasks.heads import dense_head
from keras_bert_zoo.tasks.labels import checked_labels
from keras_bert_zoo.tasks.preset_heads import classifier_arguments, label_settings
from keras_bert_zoo.tasks.tagging import Tagger
from keras_bert_zoo.text.preprocessor import TextPreprocessor


@keras.saving.register_keras_serializable(package="keras_bert_zoo")
class TokenClassifier(Tagger):
    """Says which label each token of a text has (arXiv 1810.04805, section 5.3).

    `softmax(W dropout(sequence_output) + b)` at every place. Outputs are float32 logits
    (B, L, labels).

    It is trained on lists of words and their tags, or on ids. Then targets are numbers of labels,
    int (B, L). A negative one takes no part in the loss or the score; give one to padding, special
    tokens and all pieces of a word but the first. The loss is the mean cross-entropy over the
    labelled tokens of the global batch; `sample_weight`, (B,) or (B, L), weighs them.

    `tag` labels words. An exported model returns `labels`, strings (B, L), and `probabilities`,
    float32 (B, L), of these, which are "" and 0 at padding, `[CLS]` and `[SEP]`; and the `logits`.

    Args:
        encoder: the encoder.
        labels: the labels' names, in the order of the logits.
        preprocessor: a `TextPreprocessor`, for words, `predict` and `export`; `None` if ids will
            be fed.
        dropout: dropout rate on the vectors of the tokens.

    Raises:
        ValueError: if there are fewer than two labels, or one stands twice.

    Example:

    ```python
    task = kbz.TokenClassifier(encoder, ["O", "B-LOC", "I-LOC"], preprocessor=preprocessor)
    task.compile(kbz.adamw(3e-5, total_steps=300, warmup_steps=30), clip_norm=1.0)
    task.fit([["Paris", "is", "fine"]], [["B-LOC", "O", "O"]])
    task.tag([["London", "too"]])          # a list of labels for each list of words
    task.tag(["London too."])[0][0]        # {"word": "London", "label": ..., "start": 0, ...}
    ```
    """

    architecture = "BertForTokenClassification"

    def __init__(
        self,
        encoder: TransformerEncoder,
        labels: Sequence[str],
        preprocessor: TextPreprocessor | None = None,
        dropout: float = 0.1,
        **kwargs,
    ):
        labels = checked_labels(labels)
        inputs = encoder_inputs(encoder.sequence_length)
        vectors = encoder(inputs)["sequence_output"]
        outputs = dense_head(encoder, vectors, len(labels), dropout)
        super().__init__(encoder, labels, preprocessor, inputs, outputs, **kwargs)
        self.dropout_rate = dropout

    @classmethod
    def preset_arguments(cls, folder, classes, given):
        return classifier_arguments(folder, classes, given, cls.architecture)

    def preset_settings(self):
        return label_settings(self.labels) | {"classifier_dropout": self.dropout_rate}

    def get_config(self):
        return super().get_config() | {"dropout": self.dropout_rate}
