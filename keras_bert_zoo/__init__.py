"""The BERT family on Keras 3 and TensorFlow: from a string to a served answer."""

import os


def _refuse_backend(name):
    raise ImportError(
        "keras_bert_zoo runs on Keras with the TensorFlow backend, and the one chosen is "
        f"{name!r}: set the environment variable KERAS_BACKEND=tensorflow before Keras is imported."
    )


# Asked of the variable first, as importing Keras with a backend that is not installed fails.
if os.environ.get("KERAS_BACKEND", "tensorflow") != "tensorflow":
    _refuse_backend(os.environ["KERAS_BACKEND"])

import keras

if keras.backend.backend() != "tensorflow":
    _refuse_backend(keras.backend.backend())

from keras_bert_zoo.config import EncoderConfig
from keras_bert_zoo.encoders.bert import BertEncoder
from keras_bert_zoo.optimizers.adamw import AdamW, adamw
from keras_bert_zoo.optimizers.lamb import Lamb
from keras_bert_zoo.optimizers.schedules import (
    WarmupConstant,
    WarmupCosine,
    WarmupLinear,
    WarmupPolynomial,
)
from keras_bert_zoo.serving.export import load_saved_model
from keras_bert_zoo.tasks.classifier import TextClassifier
from keras_bert_zoo.tasks.feature_tagger import FeatureTagger
from keras_bert_zoo.tasks.masked_lm import MaskedLM
from keras_bert_zoo.tasks.multi_label import MultiLabelClassifier
from keras_bert_zoo.tasks.multiple_choice import MultipleChoice
from keras_bert_zoo.tasks.next_sentence import NextSentence
from keras_bert_zoo.tasks.pretraining import Pretraining
from keras_bert_zoo.tasks.question_answering import QuestionAnswering
from keras_bert_zoo.tasks.relation import RelationClassifier
from keras_bert_zoo.tasks.text_embedder import TextEmbedder
from keras_bert_zoo.tasks.token_classifier import TokenClassifier
from keras_bert_zoo.text.packing import Packer
from keras_bert_zoo.text.preprocessor import TextPreprocessor
from keras_bert_zoo.text.wordpiece import WordPieceTokenizer

__version__ = "0.1.0"

__all__ = [
    "AdamW",
    "BertEncoder",
    "EncoderConfig",
    "FeatureTagger",
    "Lamb",
    "MaskedLM",
    "MultiLabelClassifier",
    "MultipleChoice",
    "NextSentence",
    "Packer",
    "Pretraining",
    "QuestionAnswering",
    "RelationClassifier",
    "TextClassifier",
    "TextEmbedder",
    "TextPreprocessor",
    "TokenClassifier",
    "WarmupConstant",
    "WarmupCosine",
    "WarmupLinear",
    "WarmupPolynomial",
    "WordPieceTokenizer",
    "adamw",
    "load_saved_model",
]
