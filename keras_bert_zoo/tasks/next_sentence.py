"""Whether the second text of a pair follows the first one."""

import keras

from keras_bert_zoo.encoders.transformer import TransformerEncoder
from keras_bert_zoo.tasks.classifier import TextClassifier
from keras_bert_zoo.text.preprocessor import TextPreprocessor


@keras.saving.register_keras_serializable(package="keras_bert_zoo")
class NextSentence(TextClassifier):
    """Says whether the second text of a pair follows the first (arXiv 1810.04805, section 3.1).

    The second task of BERT's pretraining, alone: `softmax(W pooled_output + b)`, without dropout.
    Outputs are float32 logits (B, 2). The labels are `"IsNext"`, 0, and `"NotNext"`, 1; all else
    is as in `TextClassifier`.

    Args:
        encoder: the encoder.
        preprocessor: a `TextPreprocessor`; `None` if ids will be fed.

    Example:

    ```python
    task = kbz.NextSentence(encoder, preprocessor=preprocessor)
    task.classify([("what is tea ?", "tea is fine .")])[0]["probabilities"]["IsNext"]
    ```
    """

    architecture = "BertForNextSentencePrediction"
    head_name = "next_sentence_logits"

    def __init__(
        self,
        encoder: TransformerEncoder,
        preprocessor: TextPreprocessor | None = None,
        **kwargs,
    ):
        super().__init__(
            encoder, ["IsNext", "NotNext"], preprocessor, dropout=0.0, **({"pair": True} | kwargs)
        )

    @classmethod
    def preset_arguments(cls, folder, classes, given):
        return given, {}

    def preset_settings(self):
        return {}

    def get_config(self):
        config = super().get_config()
        return {key: value for key, value in config.items() if key not in ("labels", "dropout")}
