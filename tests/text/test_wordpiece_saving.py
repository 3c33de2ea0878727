"""The tokenizer in saved and exported models, and the Unicode table it carries."""

import copy
import io
import json
import time
import zipfile

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert_zoo.text import unicode_table
from keras_bert_zoo.text.vocabulary import SPECIAL_TOKENS
from keras_bert_zoo.text.wordpiece import WordPieceTokenizer

TOKENS = [*SPECIAL_TOKENS, "tea", "##pot", "cup", "##s", "s", "中", "[", "]", "mask", "ο", "##ς"]


def test_without_vocabulary():
    small = WordPieceTokenizer(TOKENS)
    config = small.get_config()
    assert "##pot" not in json.dumps(config)  # Every error that shows a config would show it.
    bare = WordPieceTokenizer.from_config(config)
    assert not bare.has_vocabulary
    # Wiring needs none, everything else says what is missing.
    output = bare(keras.Input((), dtype="string"))
    assert (output.shape, output.dtype, output.ragged) == ((None, None), "int32", True)
    for use in (
        lambda: bare("tea"),
        lambda: bare.tokenize_with_spans("tea"),
        lambda: bare.vocabulary,
        lambda: bare.mask_id,
        lambda: bare.save_assets("nowhere"),
        lambda: copy.deepcopy(bare)("tea"),
    ):
        with pytest.raises(ValueError, match="has no vocabulary.*pass vocabulary="):
            use()


def test_deep_copy():
    assert copy.deepcopy(WordPieceTokenizer(TOKENS))("tea cups").numpy().tolist() == [5, 7, 8]


RELOAD = """
import sys, json
import keras, tensorflow as tf
import keras_bert_zoo
model = keras.models.load_model(sys.argv[1])
print(json.dumps(model(tf.constant(json.loads(sys.argv[2]))).to_list()))
"""

SERVE = """
import sys, json
import tensorflow as tf, tensorflow_text
serve = tf.saved_model.load(sys.argv[1]).serve
out = serve(tf.constant(json.loads(sys.argv[2])))
assert not any(name.split(".")[0] == "keras_bert_zoo" for name in sys.modules)
print(json.dumps(out.to_list()))
"""


def last_line(text):
    return text.strip().split("\n")[-1]


def test_saved_model_needs_nothing_else(tmp_path, run_python):  # BC-E05
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("\n".join([*TOKENS, "", "Tea", "##\u2028"]) + "\n", encoding="utf-8")
    tokenizer = WordPieceTokenizer(
        vocabulary, lowercase=False, max_characters_per_word=7, special_tokens_in_text=True
    )
    inputs = keras.Input((), dtype="string")
    model = keras.Model(inputs, tokenizer(inputs))
    texts = ["Tea cups", "teapots [MASK]", "", "teapotpotpot", "中ΟΣ"]
    expected = tokenizer(texts).to_list()
    model.save(tmp_path / "model.keras")
    model.export(tmp_path / "served", verbose=False)
    vocabulary.unlink()
    argument = json.dumps(texts)
    printed = run_python(RELOAD, tmp_path / "model.keras", argument, env={"PYTHONHASHSEED": "7"})
    assert json.loads(last_line(printed)) == expected
    assert json.loads(last_line(run_python(SERVE, tmp_path / "served", argument))) == expected


@pytest.mark.parametrize("lowercase", [True, False])
@pytest.mark.parametrize("strip_accents", [True, False, None])
@pytest.mark.parametrize("split_ideographs", [True, False])
def test_saved_settings(tmp_path, run_python, lowercase, strip_accents, split_ideographs):
    names = {
        "pad_token": "<pad>",
        "unknown_token": "<unk>",
        "cls_token": "<s>",
        "sep_token": "</s>",
        "mask_token": "<mask>",
    }
    words = ["cafe", "café", "CAFE", "CAFÉ", "中", "中中", "[", "]", "MASK", "mask"]
    tokenizer = WordPieceTokenizer(
        [*words, *names.values()],
        lowercase=lowercase,
        strip_accents=strip_accents,
        split_ideographs=split_ideographs,
        special_tokens_in_text=True,
        **names,
    )
    inputs = keras.Input((), dtype="string")
    keras.Model(inputs, tokenizer(inputs)).save(tmp_path / "model.keras")
    texts = ["CAFÉ", "中中 <mask>[MASK]", "tea</s>"]
    printed = run_python(RELOAD, tmp_path / "model.keras", json.dumps(texts))
    assert json.loads(last_line(printed)) == tokenizer(texts).to_list()
    loaded = keras.models.load_model(tmp_path / "model.keras").layers[-1]
    assert loaded.get_config() == tokenizer.get_config()
    assert loaded.special_tokens == tuple(names.values())
    assert loaded.special_ids == (10, 11, 12, 13, 14)
    assert (loaded.pad_id, loaded.unk_id, loaded.cls_id, loaded.sep_id, loaded.mask_id) == (
        10,
        11,
        12,
        13,
        14,
    )


@pytest.mark.parametrize("lowercase", [True, False])
def test_files_of_before_the_switches(tmp_path, lowercase):
    """Files whose config and table lack what tokenizers did not have at first."""
    tokenizer = WordPieceTokenizer([*TOKENS, "é", "É"], lowercase=lowercase)
    inputs = keras.Input((), dtype="string")
    keras.Model(inputs, tokenizer(inputs)).save(tmp_path / "model.keras")
    added = {"strip_accents", "split_ideographs", "cls_token", "sep_token", "pad_token"}
    added.add("mask_token")
    with (
        zipfile.ZipFile(tmp_path / "model.keras") as new,
        zipfile.ZipFile(tmp_path / "old.keras", "w") as old,
    ):
        for name in new.namelist():
            content = new.read(name)
            if name == "config.json":
                config = json.loads(content)
                layer = config["config"]["layers"][-1]["config"]
                assert added <= layer.keys()
                for key in added:
                    del layer[key]
                content = json.dumps(config)
            elif name.endswith(".npz"):
                fields = dict(np.load(io.BytesIO(content)))
                for key in ("strip_accents", "split_ideographs"):
                    del fields[key]
                buffer = io.BytesIO()
                np.savez_compressed(buffer, **fields)
                content = buffer.getvalue()
            old.writestr(name, content)
    texts = ["TÉA tea É cups", "中中 ΟΣ"]
    loaded = keras.models.load_model(tmp_path / "old.keras")
    assert loaded(tf.constant(texts)).to_list() == tokenizer(texts).to_list()
    assert loaded.layers[-1].get_config() == tokenizer.get_config()


@keras.saving.register_keras_serializable(package="tests")
class Subclassed(keras.Model):
    def __init__(self, tokenizer=None, **kwargs):
        super().__init__(**kwargs)
        self.tokenizer = tokenizer or WordPieceTokenizer()

    def build(self, input_shape):
        self.built = True

    def call(self, texts):
        return self.tokenizer(texts)


def test_as_part_of_a_subclassed_model(tmp_path):
    model = Subclassed(WordPieceTokenizer(TOKENS))
    model(tf.constant(["tea"]))
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    assert again(tf.constant(["cups"])).to_list() == [[7, 8]]


def test_saved_tokenizer_keeps_its_unicode(tmp_path, monkeypatch):
    inputs = keras.Input((), dtype="string")
    tokenizer = WordPieceTokenizer(TOKENS)
    keras.Model(inputs, tokenizer(inputs)).save(tmp_path / "model.keras")

    def refuse(*switches):
        raise AssertionError("a loaded tokenizer computed its table anew")

    monkeypatch.setattr("keras_bert_zoo.text.wordpiece.build_unicode_table", refuse)
    loaded = keras.models.load_model(tmp_path / "model.keras").layers[-1]
    assert loaded.unicode_version == tokenizer.unicode_version
    assert loaded("TÉA cups").numpy().tolist() == [5, 7, 8]


@pytest.mark.parametrize("ideographs", [True, False])
@pytest.mark.parametrize("strip", [True, False])
@pytest.mark.parametrize("lowercase", [True, False])
def test_table_round_trip_and_time(tmp_path, lowercase, strip, ideographs):
    start = time.process_time()
    table = unicode_table._build.__wrapped__(lowercase, strip, ideographs)
    assert time.process_time() - start < 3  # About 0.7 s on an idle machine.
    table.save(tmp_path / "table.npz")
    again = unicode_table.UnicodeTable.load(tmp_path / "table.npz")
    for name, value in vars(table).items():
        assert np.array_equal(getattr(again, name), value), name
    assert (tmp_path / "table.npz").stat().st_size < 200_000
