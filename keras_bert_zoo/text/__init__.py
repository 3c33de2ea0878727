"""Text to token ids: tokenizers, vocabularies, packing and masking."""
