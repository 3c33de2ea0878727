"""Config files as they are found in the world, and a small config."""

import json

import keras_bert_zoo as kbz

# As the released google-research/bert archives have it.
GOOGLE = {
    "attention_probs_dropout_prob": 0.1,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "hidden_size": 128,
    "initializer_range": 0.02,
    "intermediate_size": 512,
    "max_position_embeddings": 512,
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
    "type_vocab_size": 2,
    "vocab_size": 30522,
}
# Those of the Chinese and multilingual archives have keys that no code has ever read.
GOOGLE_EXTRA = {
    "directionality": "bidi",
    "pooler_fc_size": 768,
    "pooler_num_attention_heads": 12,
    "pooler_num_fc_layers": 3,
    "pooler_size_per_head": 128,
    "pooler_type": "first_token_transform",
}
# As `transformers` has written it over the years.
HUGGING_FACE_EXTRA = {
    "_name_or_path": "somewhere",
    "add_cross_attention": False,
    "architectures": ["BertForMaskedLM"],
    "bos_token_id": None,
    "chunk_size_feed_forward": 0,
    "classifier_dropout": None,
    "dtype": "float32",
    "eos_token_id": None,
    "gradient_checkpointing": False,
    "id2label": {"0": "no", "1": "yes"},
    "is_decoder": False,
    "is_encoder_decoder": False,
    "label2id": {"no": 0, "yes": 1},
    "layer_norm_eps": 1e-5,
    "model_type": "bert",
    "output_attentions": False,
    "pad_token_id": 3,
    "position_embedding_type": "absolute",
    "problem_type": None,
    "pruned_heads": {},
    "return_dict": True,
    "tie_word_embeddings": True,
    "torchscript": False,
    "transformers_version": "4.6.0.dev0",
    "use_cache": True,
}


def config(**changes):
    values = {
        "vocab_size": 40,
        "hidden_size": 12,
        "num_hidden_layers": 2,
        "num_attention_heads": 3,
        "intermediate_size": 20,
    }
    return kbz.EncoderConfig(**(values | changes))


def write(path, values):
    path.write_text(json.dumps(values), encoding="utf-8")
    return path
