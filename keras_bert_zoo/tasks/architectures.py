"""Which task a preset is of."""

import os

from keras_bert_zoo.checkpoints.folder import PresetFolder
from keras_bert_zoo.checkpoints.matching import parts_in
from keras_bert_zoo.tasks.base import Task
from keras_bert_zoo.tasks.classifier import TextClassifier
from keras_bert_zoo.tasks.masked_lm import MaskedLM
from keras_bert_zoo.tasks.multi_label import MultiLabelClassifier
from keras_bert_zoo.tasks.multiple_choice import MultipleChoice
from keras_bert_zoo.tasks.next_sentence import NextSentence
from keras_bert_zoo.tasks.pretraining import Pretraining
from keras_bert_zoo.tasks.question_answering import QuestionAnswering
from keras_bert_zoo.tasks.sentence_transformers import read_sentence_transformer
from keras_bert_zoo.tasks.text_embedder import TextEmbedder
from keras_bert_zoo.tasks.token_classifier import TokenClassifier

# By Hugging Face's class of such a model.
ARCHITECTURES = {
    "BertForMaskedLM": MaskedLM,
    "BertForMultipleChoice": MultipleChoice,
    "BertForNextSentencePrediction": NextSentence,
    "BertForPreTraining": Pretraining,
    "BertForQuestionAnswering": QuestionAnswering,
    "BertForSequenceClassification": TextClassifier,
    "BertForTokenClassification": TokenClassifier,
    "BertLMHeadModel": MaskedLM,
}
# By the parts that weights have, the most telling ones first.
_PARTS = (
    ({"masked_lm", "next_sentence"}, Pretraining),
    ({"masked_lm"}, MaskedLM),
    ({"span"}, QuestionAnswering),
    ({"next_sentence"}, NextSentence),
    ({"classifier"}, TextClassifier),
)


def task_of_preset(preset: str | os.PathLike) -> type[Task] | None:
    """Finds the task that a preset's head is of.

    Its config tells, or else its weights: a classifier without a config that says what of is taken
    for one of texts.

    Args:
        preset: as `Task.from_preset` takes it.

    Returns:
        A class; `TextEmbedder` for a folder of sentence-transformers; `None` if there is no head.

    Raises:
        ValueError: if there is no such preset, or its config or weights cannot be read.
    """
    folder = PresetFolder.open(preset)
    for name in folder.architectures:
        if name in ARCHITECTURES:
            several = folder.values.get("problem_type") == "multi_label_classification"
            if several and ARCHITECTURES[name] is TextClassifier:
                return MultiLabelClassifier
            return ARCHITECTURES[name]
    if folder.architectures:
        return TextEmbedder if read_sentence_transformer(folder.path) else None
    with folder.tensors() as source:
        parts = parts_in(source, folder.config)
    return next((task for needed, task in _PARTS if needed <= parts), None)
