"""BERT's pretraining: masked words and next sentences at once."""

import keras
import tensorflow as tf

from keras_bert_zoo.encoders.transformer import TransformerEncoder
from keras_bert_zoo.tasks.heads import dense_head
from keras_bert_zoo.tasks.masked_lm import MaskedLM, masked_lm_graph
from keras_bert_zoo.tasks.step import same_class, weighed
from keras_bert_zoo.text.preprocessor import TextPreprocessor


@keras.saving.register_keras_serializable(package="keras_bert_zoo")
class Pretraining(MaskedLM):
    """Masked words and next sentences (arXiv 1810.04805, section 3.1).

    Inputs and targets are those of `MaskedLM` and, as targets, `next_sentence`, int32 (B,), 0 if
    the second text follows the first and 1 if it is a random one, and `next_sentence_weights`,
    float32 (B,), 0 for rows that are no pair. Outputs are a dict of `masked_lm_logits`, float32
    (B, P, V), and `next_sentence_logits`, float32 (B, 2).

    The loss is the mean over the masked tokens plus the mean over the pairs of the global batch.

    Args:
        encoder: the encoder.
        preprocessor: a `TextPreprocessor`, which `fill` and `export` need, and training on texts,
            which takes `next_sentence=False`.
        next_sentence: whether to predict next sentences too. Without, this is `MaskedLM`.
        seed: as in `MaskedLM`.
    """

    def __init__(
        self,
        encoder: TransformerEncoder,
        preprocessor: TextPreprocessor | None = None,
        next_sentence: bool = True,
        seed: int = 0,
        **kwargs,
    ):
        if not next_sentence:
            super().__init__(encoder, preprocessor, seed=seed, **kwargs)
            self.next_sentence = False
            return
        inputs, encoded, logits = masked_lm_graph(encoder, pooled=True)
        sentence_logits = dense_head(
            encoder, encoded["pooled_output"], 2, name="next_sentence_logits"
        )
        # MaskedLM's graph has no place for a second output: its constructor is passed over.
        super(MaskedLM, self).__init__(
            encoder,
            preprocessor,
            inputs,
            {"masked_lm_logits": logits, "next_sentence_logits": sentence_logits},
            loss_names=("masked_lm_loss", "next_sentence_loss"),
            score_names=("masked_lm_accuracy", "next_sentence_accuracy"),
            **({"pair": False} | kwargs),
        )
        self.seed = seed
        self.next_sentence = True

    @property
    def architecture(self):
        return "BertForPreTraining" if self.next_sentence else super().architecture

    @property
    def reads_pooler(self):
        return self.next_sentence

    def loss_terms(self, x, y, outputs, sample_weight):
        terms = super().loss_terms(x, y, outputs, sample_weight)
        if self.next_sentence:
            if "next_sentence" not in y:
                raise ValueError(
                    "The targets have no `next_sentence`: make the dataset with "
                    "`next_sentence=True`, or the task with `next_sentence=False`."
                )
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
                labels=y["next_sentence"], logits=outputs["next_sentence_logits"]
            )
            terms["next_sentence_loss"] = weighed(losses, y["next_sentence_weights"])
        return terms

    def score_terms(self, x, y, outputs, sample_weight):
        terms = super().score_terms(x, y, outputs, sample_weight)
        if self.next_sentence:
            hits = same_class(outputs["next_sentence_logits"], y["next_sentence"])
            terms["next_sentence_accuracy"] = weighed(hits, y["next_sentence_weights"])
        return terms

    def prepare(self, dataset, training=False):
        if self.next_sentence:
            raise ValueError(
                "Next sentences are drawn from documents, and single texts were given: make the "
                "dataset with `keras_bert_zoo.datasets.pretraining`, or the task with "
                "`next_sentence=False`."
            )
        return super().prepare(dataset, training)

    def get_config(self):
        return super().get_config() | {"next_sentence": self.next_sentence}
