"""Folders with tokenizer files for tests, whole and broken."""

import json

from keras_bert_zoo.text.vocabulary import SPECIAL_TOKENS

TOKENS = [*SPECIAL_TOKENS, "tea", "##pot", "cup"]
IDS = {token: number for number, token in enumerate(TOKENS)}
NAMES = {
    "pad_token": "[PAD]",
    "unknown_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}
DEFAULTS = NAMES | {
    "lowercase": True,
    "strip_accents": None,
    "split_ideographs": True,
    "max_characters_per_word": 100,
}


def model(ids=IDS, **changes):
    """The content of a tokenizer.json; `model.x` stands for the key x of its model."""
    whole = {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": {"type": "BertNormalizer", "lowercase": True},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": ids,
        },
    }
    for key, value in changes.items():
        *outer, key = key.split(".")
        (whole[outer[0]] if outer else whole)[key] = value
    return whole


def bert(**switches):
    return {"type": "BertNormalizer", **switches}


def sequence(*steps):
    return {"type": "Sequence", "normalizers": [*steps]}


def entry(number, content, **more):
    return {"id": number, "content": content, **more}


def short(value):
    """For the names of tests."""
    return str(value)[:60]


def write_folder(path, vocab=TOKENS, **files):
    """Makes a folder anew; bytes are written as they are, the rest as JSON."""
    path.mkdir(exist_ok=True)
    for file in path.iterdir():
        file.unlink()
    if vocab is not None:
        text = "".join(f"{token}\n" for token in vocab)
        (path / "vocab.txt").write_text(text, encoding="utf-8")
    names = {"tokenizer": "tokenizer.json", "config": "tokenizer_config.json"}
    names |= {"special": "special_tokens_map.json", "added": "added_tokens.json"}
    for key, content in files.items():
        if not isinstance(content, bytes):
            content = json.dumps(content).encode()
        (path / names[key]).write_bytes(content)
    return path
