"""Named architectures: the encoder, the tokenizer's settings, and where the weights live.

`keras_bert_zoo.hub.find_folder` fetches what a name's `hub_id` holds.
"""

import dataclasses
from types import MappingProxyType

from keras_bert_zoo.config import EncoderConfig


@dataclasses.dataclass(frozen=True)
class Preset:
    """A named architecture.

    Args:
        config: the encoder, for fresh weights. Released ones bring their own config file.
        lowercase: whether its vocabulary is uncased.
        hub_id: owner and name of the folder of released weights on the Hugging Face hub, which
            also has the vocabulary.
    """

    config: EncoderConfig
    lowercase: bool
    hub_id: str


def _bert(hub_id, layers, hidden, vocab_size=30522, lowercase=True):
    config = EncoderConfig(
        vocab_size=vocab_size,
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=hidden // 64,
        intermediate_size=4 * hidden,
    )
    return Preset(config, lowercase, hub_id)


# Sizes: Devlin et al. 2019 (arXiv 1810.04805) and, for tiny to medium, Turc et al. 2019
# (arXiv 1908.08962). The Chinese vocabulary is lower-cased as well.
PRESETS = MappingProxyType(
    {
        "bert_tiny": _bert("google/bert_uncased_L-2_H-128_A-2", 2, 128),
        "bert_mini": _bert("google/bert_uncased_L-4_H-256_A-4", 4, 256),
        "bert_small": _bert("google/bert_uncased_L-4_H-512_A-8", 4, 512),
        "bert_medium": _bert("google/bert_uncased_L-8_H-512_A-8", 8, 512),
        "bert_base_uncased": _bert("google-bert/bert-base-uncased", 12, 768),
        "bert_base_cased": _bert("google-bert/bert-base-cased", 12, 768, 28996, False),
        "bert_base_chinese": _bert("google-bert/bert-base-chinese", 12, 768, 21128),
        "bert_base_multilingual_cased": _bert(
            "google-bert/bert-base-multilingual-cased", 12, 768, 119547, False
        ),
        "bert_large_uncased": _bert("google-bert/bert-large-uncased", 24, 1024),
        "bert_large_cased": _bert("google-bert/bert-large-cased", 24, 1024, 28996, False),
    }
)


def get_preset(name: str) -> Preset:
    """Returns the preset of that name.

    Raises:
        ValueError: if there is none; the message lists those there are.
    """
    if name not in PRESETS:
        raise ValueError(f"No preset is named {name!r}. There are: {', '.join(PRESETS)}")
    return PRESETS[name]
