"""Lower-casing: whose word counts, and that a contradiction is told (BC-K07)."""

import json
import shutil
import warnings

import keras
import pytest
import tensorflow as tf

from keras_bert_zoo.text.casing import casing_of_name, casing_of_vocabulary
from keras_bert_zoo.text.preprocessor import TextPreprocessor
from keras_bert_zoo.text.tokenizer_files import read_tokenizer_files
from keras_bert_zoo.text.vocabulary import SPECIAL_TOKENS, read_vocabulary
from keras_bert_zoo.text.wordpiece import WordPieceTokenizer

REAL = {
    "bert-base-uncased": True,
    "bert-base-chinese": True,
    "bert-base-cased": False,
    "bert-base-multilingual-cased": False,
}
LETTERS = "abcdefghijklmnopqrstuvwxyz"
UNCASED = [*SPECIAL_TOKENS, *LETTERS, *("##" + c for c in LETTERS)]
CASED = [*UNCASED, *LETTERS.upper(), *("##" + c for c in LETTERS.upper())]
FOX = "The Quick Brown Fox"


def folder(tmp_path, vocabulary, name="model", config=None, normalizer=None):
    path = tmp_path / name
    path.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{token}\n" for token in vocabulary)
    (path / "vocab.txt").write_text(text, encoding="utf-8")
    if config is not None:
        (path / "tokenizer_config.json").write_text(json.dumps(config))
    if normalizer is not None:
        model = {"type": "WordPiece", "vocab": {t: i for i, t in enumerate(vocabulary)}}
        normalizer = {"type": "BertNormalizer", "lowercase": normalizer}
        whole = {"model": model, "normalizer": normalizer}
        (path / "tokenizer.json").write_text(json.dumps(whole))
    return path


def told(read, *arguments, **settings):
    """What it returns, and what it warns of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = read(*arguments, **settings)
    assert all(warning.category is UserWarning for warning in caught)
    return result, [str(warning.message) for warning in caught]


# --- BC-K07 --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", REAL)
def test_bc_k07_real_vocabularies(shared_data, tmp_path, name):
    """Silent in the right mode, a warning in the wrong one, whatever the folder is called."""
    right = REAL[name]
    path = tmp_path / "checkpoint-500"
    path.mkdir()
    shutil.copy(shared_data / "vocab" / name / "vocab.txt", path)
    settings, warned = told(read_tokenizer_files, path)
    assert (settings.arguments["lowercase"], warned) == (right, [])
    tokenizer, warned = told(WordPieceTokenizer.from_preset, path, lowercase=right)
    assert (tokenizer.lowercase, warned) == (right, [])
    assert tokenizer.unk_id not in tokenizer(FOX).numpy()
    tokenizer, warned = told(WordPieceTokenizer.from_preset, path, lowercase=not right)
    assert tokenizer.lowercase is not right
    assert len(warned) == 1
    assert f"lowercase={not right}" in warned[0]
    assert f"Pass lowercase={right}" in warned[0]
    assert "the vocabulary" in warned[0]


@pytest.mark.parametrize(
    "name",
    [
        "uncased_L-2_H-128_A-2",
        "wwm_uncased_L-24_H-1024_A-16",
        "chinese_L-12_H-768_A-12",
        "multilingual_L-12_H-768_A-12",
    ],
)
def test_bc_k07_uncased_folder_without_lower_casing(tmp_path, name):
    path = folder(tmp_path, [*SPECIAL_TOKENS, "tea"], name)  # The vocabulary says nothing.
    tokenizer, warned = told(WordPieceTokenizer.from_preset, path)
    assert (tokenizer.lowercase, warned) == (True, [])
    tokenizer, warned = told(WordPieceTokenizer.from_preset, path, lowercase=False)
    assert tokenizer.lowercase is False
    assert len(warned) == 1
    assert f"the folder's name ({name!r}) says otherwise" in warned[0]
    assert "become unknown" in warned[0]
    assert "6 points of F1" in warned[0]


def test_bc_k07_config_without_lower_casing(tmp_path):
    path = folder(tmp_path, [*SPECIAL_TOKENS, "tea"], config={"do_lower_case": True})
    tokenizer, warned = told(WordPieceTokenizer.from_preset, path)
    assert (tokenizer.lowercase, warned) == (True, [])
    tokenizer, warned = told(WordPieceTokenizer.from_preset, path, lowercase=False)
    assert tokenizer.lowercase is False
    assert len(warned) == 1
    assert "tokenizer_config.json (`do_lower_case` is true) says otherwise" in warned[0]
    preprocessor, warned = told(TextPreprocessor.from_preset, path, lowercase=False)
    assert preprocessor.tokenizer.lowercase is False
    assert len(warned) == 1


def test_bc_k07_cased_vocabulary_with_lower_casing(tmp_path):
    path = folder(tmp_path, CASED)
    tokenizer, warned = told(WordPieceTokenizer.from_preset, path, lowercase=True)
    assert tokenizer.lowercase is True
    assert len(warned) == 1
    assert "52 of its 109 tokens have capitals" in warned[0]
    assert "never found" in warned[0]
    path = folder(tmp_path, CASED, config={"do_lower_case": True})
    tokenizer, warned = told(WordPieceTokenizer.from_preset, path)
    assert tokenizer.lowercase is True  # As the config says, but not in silence.
    assert len(warned) == 1


def test_bc_k07_uncased_vocabulary_in_a_cased_config(tmp_path):
    """As the hub has bert-base-chinese."""
    path = folder(tmp_path, UNCASED, config={"do_lower_case": False})
    tokenizer, warned = told(WordPieceTokenizer.from_preset, path)
    assert tokenizer.lowercase is False
    assert len(warned) == 1
    assert "the words of 'the quick brown fox', but not 'The Quick Brown Fox'" in warned[0]


@pytest.mark.parametrize("name, says", [("uncased_L-2", True), ("multi_cased_L-12", False)])
def test_bc_k07_the_name_against_the_config(tmp_path, name, says):
    path = folder(tmp_path, [*SPECIAL_TOKENS, "tea"], name, config={"do_lower_case": not says})
    settings, warned = told(read_tokenizer_files, path)
    assert settings.arguments["lowercase"] is not says
    assert settings.sources["lowercase"] == "tokenizer_config.json"
    assert len(warned) == 1
    assert f"the folder's name ({name!r}) says otherwise" in warned[0]


def test_bc_k07_saved_models_keep_the_setting(tmp_path, run_python):
    path = folder(tmp_path, CASED, "cased_L-2")
    tokenizer = WordPieceTokenizer.from_preset(path)
    inputs = keras.Input((), dtype="string")
    model = keras.Model(inputs, tokenizer(inputs))
    model.save(tmp_path / "model.keras")
    shutil.rmtree(path)
    printed = run_python(
        "import sys, keras, tensorflow as tf, keras_bert_zoo\n"
        "model = keras.models.load_model(sys.argv[1])\n"
        "print(model.layers[-1].lowercase, model(tf.constant([sys.argv[2]])).to_list())\n",
        tmp_path / "model.keras",
        FOX,
    )
    assert printed.splitlines()[-1] == f"False {model(tf.constant([FOX])).to_list()}"


# --- Who is heard --------------------------------------------------------------------------------


def test_order_of_the_voices(tmp_path):
    tea = [*SPECIAL_TOKENS, "tea"]
    config, cased = {"do_lower_case": True}, "bert-base-cased"
    settings, warned = told(
        read_tokenizer_files, folder(tmp_path, tea, cased, config, normalizer=False)
    )
    assert settings.arguments["lowercase"] is True
    assert settings.sources["lowercase"] == "tokenizer_config.json"
    assert len(warned) == 1  # One sentence, however many contradict.
    both = "tokenizer.json (`lowercase` is false) and the folder's name ('bert-base-cased') say"
    assert both in warned[0]
    settings, warned = told(
        read_tokenizer_files, folder(tmp_path, tea, f"1/{cased}", {}, normalizer=True)
    )
    assert settings.arguments["lowercase"] is True
    assert settings.sources["lowercase"] == "tokenizer.json"
    settings, warned = told(read_tokenizer_files, folder(tmp_path, tea, f"2/{cased}"))
    assert settings.arguments["lowercase"] is False
    assert (settings.sources["lowercase"], warned) == ("the folder's name", [])
    settings, warned = told(read_tokenizer_files, folder(tmp_path, CASED, "3"))
    assert settings.arguments["lowercase"] is False
    assert (settings.sources["lowercase"], warned) == ("the vocabulary", [])
    settings, _ = told(read_tokenizer_files, folder(tmp_path, CASED, "4"), lowercase=True)
    assert settings.arguments["lowercase"] is True
    assert settings.sources["lowercase"] == "the caller"


def test_a_general_class_goes_by_tokenizer_json(tmp_path):
    config = {"do_lower_case": True, "tokenizer_class": "PreTrainedTokenizerFast"}
    path = folder(tmp_path, [*SPECIAL_TOKENS, "tea"], "model", config, normalizer=False)
    settings, warned = told(read_tokenizer_files, path)
    assert settings.arguments["lowercase"] is False
    assert len(warned) == 1
    assert "as tokenizer.json says" in warned[0]


@pytest.mark.parametrize(
    ("name", "lowercase", "sure"),
    [
        ("uncased_L-2_H-128_A-2", True, True),
        ("bert-base-uncased", True, True),
        ("BERT.Uncased", True, True),
        ("cased_L-12_H-768_A-12", False, True),
        ("multi_cased_L-12_H-768_A-12", False, True),
        ("bert-base-multilingual-cased", False, True),
        ("bert-base-multilingual-uncased", True, True),
        ("chinese_L-12_H-768_A-12", True, True),
        ("multilingual_L-12_H-768_A-12", True, True),
        ("bert-base-chinese", True, False),
        ("my-multilingual-thing", True, False),
        ("models--google-bert--bert-base-cased/snapshots/0a1b2c", False, True),
        ("models--google--bert_uncased_L-2_H-128_A-2/snapshots/cased", True, True),
    ],
)
def test_names(tmp_path, name, lowercase, sure):
    voice = casing_of_name(tmp_path / name)
    assert (voice.lowercase, voice.sure) == (lowercase, sure)
    assert casing_of_name(f"{tmp_path / name}/") == voice


@pytest.mark.parametrize(
    "name", ["model", "cased-vs-uncased", "showcased", "unleased", "snapshots/0a1b2c", "uncased/1"]
)
def test_names_that_say_nothing(tmp_path, name):
    assert casing_of_name(tmp_path / name) is None


def test_the_name_of_the_working_folder(tmp_path, monkeypatch):
    path = folder(tmp_path, [*SPECIAL_TOKENS, "tea"], "cased_L-2")
    monkeypatch.chdir(path)
    assert read_tokenizer_files(".").arguments["lowercase"] is False


# --- Vocabularies --------------------------------------------------------------------------------


def without(vocabulary, *tokens):
    return [token for token in vocabulary if token not in tokens]


PIECES = [*SPECIAL_TOKENS, "[C@@H]", "[nH]", "C", "O", "Cl", "Br", "c1", "c", "=", "(", ")", "N"]


@pytest.mark.parametrize(
    ("vocabulary", "lowercase"),
    [
        (UNCASED, True),
        (CASED, False),
        ([*UNCASED, "中", "<S>", "<T>"], True),  # As the real Chinese one.
        ([*SPECIAL_TOKENS, *"the quick brown fox".split()], True),
        ([*CASED, *(f"x{number}" for number in range(5200))], None),  # Capitals in 1% of words.
        ([*CASED, *(f"x{number}" for number in range(5000))], False),
        (without(CASED, "Q"), None),  # Of few texts: some capitals are missing.
        (without(UNCASED, "q"), None),
        ([*SPECIAL_TOKENS, "tea"], None),
        (PIECES, None),
        ([*SPECIAL_TOKENS, *"абвгд", *"АБВГД"], None),
        ([*SPECIAL_TOKENS, *"中国人"], None),
        (SPECIAL_TOKENS, None),
    ],
)
def test_vocabularies(tmp_path, vocabulary, lowercase):
    voice = casing_of_vocabulary(vocabulary)
    assert (voice and voice.lowercase) is lowercase
    path = folder(tmp_path, vocabulary)
    for asked in (True, False):
        settings, warned = told(read_tokenizer_files, path, lowercase=asked)
        assert settings.arguments["lowercase"] is asked
        assert len(warned) == (lowercase is not None and asked is not lowercase)


@pytest.mark.parametrize(
    ("vocabulary", "lowercase"),
    [
        (PIECES, False),
        ([*SPECIAL_TOKENS, *"абвгд", *"АБВГД"], False),
        ([*SPECIAL_TOKENS, *"абвгд"], True),
        ([*SPECIAL_TOKENS, *(f"x{number}" for number in range(100)), "Q"], True),
        ([*SPECIAL_TOKENS, *(f"x{number}" for number in range(90)), "Q"], False),
        ([*SPECIAL_TOKENS, *"中国人"], True),
    ],
)
def test_vocabularies_alone_decide_by_their_capitals(tmp_path, vocabulary, lowercase):
    settings, warned = told(read_tokenizer_files, folder(tmp_path, vocabulary))
    assert (settings.arguments["lowercase"], warned) == (lowercase, [])
    assert settings.sources["lowercase"] == "the vocabulary"


def test_greedy_matching_is_whole(shared_data):
    """The look at the words is that of the tokenizer itself."""
    for name in REAL:
        vocabulary = read_vocabulary(shared_data / "vocab" / name / "vocab.txt")
        for lowercase in (True, False):
            tokenizer = WordPieceTokenizer(vocabulary, lowercase=lowercase)
            unknown = tokenizer.unk_id in tokenizer(FOX).numpy()
            assert unknown == (REAL[name] and not lowercase)
