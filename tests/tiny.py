"""Tiny models and vocabularies that tests share."""

import keras_bert_zoo as kbz

WORDS = "good bad film tea cup a the of what is fine paris london france england capital".split()
VOCABULARY = [
    "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, "##s", "##ing", ".", "!", "?", ",",
]  # fmt: skip


def tiny_config(**changes) -> kbz.EncoderConfig:
    values = {
        "vocab_size": len(VOCABULARY),
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 24,
        "max_position_embeddings": 32,
    }
    return kbz.EncoderConfig(**(values | changes))


def tiny_encoder(sequence_length=None, dtype=None, **changes) -> kbz.BertEncoder:
    return kbz.BertEncoder(tiny_config(**changes), sequence_length=sequence_length, dtype=dtype)


def tiny_preprocessor(sequence_length=12, **settings) -> kbz.TextPreprocessor:
    return kbz.TextPreprocessor(kbz.WordPieceTokenizer(VOCABULARY, **settings), sequence_length)


def tiny_classifier(labels=("bad", "good"), **changes) -> kbz.TextClassifier:
    labels = None if labels is None else list(labels)
    return kbz.TextClassifier(
        tiny_encoder(**changes), labels=labels, preprocessor=tiny_preprocessor()
    )
