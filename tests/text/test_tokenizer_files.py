"""Tokenizer files of a folder: what is read, what is told, and what is written."""

import functools
import warnings

import pytest
from tokenizer_folders import (
    DEFAULTS,
    IDS,
    NAMES,
    TOKENS,
    bert,
    entry,
    model,
    sequence,
    short,
    write_folder,
)

from keras_bert_zoo.text.preprocessor import TextPreprocessor
from keras_bert_zoo.text.tokenizer_files import (
    TokenizerSettings,
    read_tokenizer_files,
    write_tokenizer_files,
)
from keras_bert_zoo.text.wordpiece import WordPieceTokenizer


@pytest.fixture
def folder(tmp_path):
    return functools.partial(write_folder, tmp_path / "model")


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        yield


# --- Reading -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("vocab", "files", "source"),
    [
        (TOKENS, {}, "vocab.txt"),
        (None, {"tokenizer": model()}, "tokenizer.json"),
        (TOKENS, {"tokenizer": model()}, "vocab.txt"),
        (TOKENS, {"config": {}, "special": {}, "added": {}}, "vocab.txt"),
        (None, {"tokenizer": model(), "config": {"tokenizer_class": "BertTokenizer"}}, None),
    ],
)
def test_one_file_or_all(folder, vocab, files, source):
    path = folder(vocab, **files)
    settings = read_tokenizer_files(path)
    assert isinstance(settings, TokenizerSettings)
    assert (settings.vocabulary, settings.arguments) == (TOKENS, DEFAULTS)
    assert settings.model_max_length is None
    assert settings.sources["vocabulary"] == source or source is None
    assert settings.sources.keys() == {*DEFAULTS, "vocabulary", "model_max_length"}
    tokenizer = WordPieceTokenizer.from_preset(path)
    assert tokenizer("Teapot cup").numpy().tolist() == [5, 6, 7]
    assert {key: tokenizer.get_config()[key] for key in DEFAULTS} == DEFAULTS


def test_no_files(folder):
    path = folder(None)
    assert read_tokenizer_files(path) is None
    (path / "spiece.model").write_bytes(b"x")
    (path / "config.json").write_text("{}")
    assert read_tokenizer_files(path) is None
    with pytest.raises(ValueError, match=r"no vocab.txt and no .*config.json, spiece.model"):
        WordPieceTokenizer.from_preset(path)
    path = folder(None, config={}, special={})
    with pytest.raises(ValueError, match=r"has tokenizer_config.json, special.*vocabulary is miss"):
        read_tokenizer_files(path)
    with pytest.raises(ValueError, match="nowhere"):
        WordPieceTokenizer.from_preset(path / "nowhere")


def test_order_of_ids_is_not_that_of_the_file(folder):
    settings = read_tokenizer_files(folder(None, tokenizer=model(dict(reversed(IDS.items())))))
    assert settings.vocabulary == TOKENS


CONFIG, MODEL = "tokenizer_config.json", "tokenizer.json"


@pytest.mark.parametrize(
    ("files", "name", "value", "source"),
    [
        ({"config": {"do_lower_case": False}}, "lowercase", False, CONFIG),
        ({"tokenizer": model(normalizer=bert(lowercase=False))}, "lowercase", False, MODEL),
        ({"config": {"do_lower_case": None}, "tokenizer": model()}, "lowercase", True, MODEL),
        ({"config": {"strip_accents": False}}, "strip_accents", False, CONFIG),
        ({"config": {"strip_accents": None}}, "strip_accents", None, CONFIG),
        ({"tokenizer": model(normalizer=bert(strip_accents=False))}, "strip_accents", False, MODEL),
        ({"config": {"tokenize_chinese_chars": False}}, "split_ideographs", False, CONFIG),
        (
            {"tokenizer": model(normalizer=bert(handle_chinese_chars=False))},
            "split_ideographs",
            False,
            MODEL,
        ),
        (
            {"tokenizer": model(normalizer=sequence(bert(lowercase=False)))},
            "lowercase",
            False,
            MODEL,
        ),
        (
            {"tokenizer": model(**{"model.max_input_chars_per_word": 7})},
            "max_characters_per_word",
            7,
            MODEL,
        ),
        ({"tokenizer": model(**{"model.unk_token": "tea"})}, "unknown_token", "tea", MODEL),
        ({"config": {"unk_token": "tea"}, "tokenizer": model()}, "unknown_token", "tea", CONFIG),
        ({"config": {"cls_token": "tea"}}, "cls_token", "tea", CONFIG),
        ({"config": {"sep_token": {"content": "tea"}}}, "sep_token", "tea", CONFIG),
        (
            {"config": {"mask_token": {"__type": "AddedToken", "content": "tea", "lstrip": True}}},
            "mask_token",
            "tea",
            CONFIG,
        ),
        ({"special": {"pad_token": "tea"}}, "pad_token", "tea", "special_tokens_map.json"),
        ({"special": {"pad_token": {"content": "tea"}}}, "pad_token", "tea", None),
        # As transformers has it: the map first, but for configs that hold all added tokens.
        (
            {"config": {"cls_token": "cup"}, "special": {"cls_token": "tea"}},
            "cls_token",
            "tea",
            None,
        ),
        (
            {
                "config": {"cls_token": "cup", "added_tokens_decoder": {}},
                "special": {"cls_token": "tea"},
            },
            "cls_token",
            "cup",
            CONFIG,
        ),
        ({"config": {"mask_token": None}}, "mask_token", "[MASK]", "BERT's default"),
    ],
    ids=short,
)
def test_settings(folder, files, name, value, source):
    settings = read_tokenizer_files(folder(**files))
    assert settings.arguments == DEFAULTS | {name: value}
    assert source is None or settings.sources[name] == source
    tokenizer = WordPieceTokenizer.from_preset(folder(**files))
    assert tokenizer.get_config()[name] == value


@pytest.mark.parametrize(
    "kind",
    """BertTokenizer BertTokenizerFast DistilBertTokenizer ElectraTokenizerFast TokenizersBackend
    PreTrainedTokenizerFast MobileBertTokenizer ConvBertTokenizer LayoutLMTokenizer Mine""".split(),
)
def test_kinds_of_tokenizers_that_are_read(folder, kind):
    path = folder(config={"tokenizer_class": kind})
    assert read_tokenizer_files(path).arguments == DEFAULTS


def test_the_caller_comes_first(folder):
    path = folder(config={"strip_accents": False, "cls_token": "[BOS]", "model_max_length": 512})
    with pytest.raises(ValueError, match=rf"{path}: The vocabulary .* lacks \[BOS\]"):
        WordPieceTokenizer.from_preset(path)
    tokenizer = WordPieceTokenizer.from_preset(
        path, cls_token="[CLS]", strip_accents=True, special_tokens_in_text=True, name="mine"
    )
    assert tokenizer.strip_accents is True
    assert tokenizer.name == "mine"
    assert tokenizer("tea[MASK]").numpy().tolist() == [5, 4]


@pytest.mark.parametrize(
    ("config", "length"),
    [
        ({}, None),
        ({"model_max_length": 512}, 512),
        ({"model_max_length": 512.0}, 512),
        ({"model_max_length": None}, None),
        ({"model_max_length": int(1e30)}, None),
        ({"model_max_length": 1e30}, None),
        ({"model_max_length": 10**12}, 10**12),
        ({"max_len": 256}, 256),
        ({"model_max_length": 512, "max_len": 256}, 512),
    ],
    ids=short,
)
def test_longest_input(folder, config, length):
    path = folder(config=config)
    settings = read_tokenizer_files(path)
    assert settings.model_max_length == length
    told = next(iter(config.values()), None) is not None
    assert settings.sources["model_max_length"] == (CONFIG if told else "no file")
    assert TextPreprocessor.from_preset(path).sequence_length == 128
    assert TextPreprocessor.from_preset(path, 256).sequence_length == 256


def test_preprocessor(folder):
    path = folder(config={"model_max_length": 9})
    assert TextPreprocessor.from_preset(path).sequence_length == 9
    with pytest.raises(ValueError, match=r"at most 9 tokens.*received sequence_length=10"):
        TextPreprocessor.from_preset(path, 10)
    preprocessor = TextPreprocessor.from_preset(
        str(path), 8, padding="longest", max_characters_per_word=3
    )
    assert preprocessor.padding == "longest"
    packed = preprocessor((["tea"], ["teapot CUP"]))
    assert packed["token_ids"].numpy().tolist() == [[2, 5, 3, 1, 7, 3]]
    with pytest.raises(ValueError, match="at least 2"):
        TextPreprocessor.from_preset(path, 1)


# --- Added tokens --------------------------------------------------------------------------------


SPECIAL_ENTRIES = [entry(number, token, special=True) for number, token in enumerate(TOKENS[:5])]


@pytest.mark.parametrize(
    "files",
    [
        {"tokenizer": model(added_tokens=[*SPECIAL_ENTRIES, entry(8, "[E1]"), entry(9, "[E2]")])},
        {"added": {"[E2]": 9, "[E1]": 8}},
        {"config": {"added_tokens_decoder": {"9": entry(9, "[E2]"), "8": {"content": "[E1]"}}}},
        {"added": {"[E1]": 8}, "tokenizer": model(added_tokens=[entry(9, "[E2]")])},
        {"added": {"[E1]": 8, "[E2]": 9}, "tokenizer": model(IDS | {"[E1]": 8, "[E2]": 9})},
    ],
    ids=short,
)
@pytest.mark.parametrize("with_vocab", [True, False])
def test_added_tokens_join_the_vocabulary(folder, files, with_vocab):
    path = folder(TOKENS if with_vocab else None, **({"tokenizer": model()} | files))
    with pytest.warns(UserWarning, match=r"text like any other here: '\[E1\]', '\[E2\]'\.") as said:
        settings = read_tokenizer_files(path)
    assert len(said) == 1
    assert settings.vocabulary == [*TOKENS, "[E1]", "[E2]"]


@pytest.mark.parametrize(
    "files",
    [
        {"tokenizer": model(added_tokens=SPECIAL_ENTRIES)},
        {"added": {token: number for number, token in enumerate(TOKENS[:5])}},
        {"added": {"[unused0]": 8, "[unused17]": 9}},
        {"special": {"additional_special_tokens": []}},
        {"special": {"additional_special_tokens": ["[MASK]", {"content": "[CLS]"}]}},
    ],
    ids=short,
)
def test_added_tokens_that_need_no_warning(folder, files):
    read_tokenizer_files(folder(**files))


@pytest.mark.parametrize(
    "files",
    [
        {"tokenizer": model(added_tokens=[entry(7, "cup")])},
        {"special": {"additional_special_tokens": ["cup"]}},
        {"special": {"additional_special_tokens": [{"content": "cup"}]}},
        {"config": {"additional_special_tokens": ["cup"]}},
        {"config": {"extra_special_tokens": {"image_token": "cup"}}},
    ],
    ids=short,
)
def test_added_tokens_within_the_vocabulary(folder, files):
    with pytest.warns(UserWarning, match="text like any other here: 'cup'"):
        assert read_tokenizer_files(folder(**files)).vocabulary == TOKENS


LITERAL = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)


def test_added_tokens_that_are_found_letter_for_letter(folder):
    entries = [*SPECIAL_ENTRIES, entry(9, "[E2]", **LITERAL), entry(8, "[E1]", **LITERAL)]
    settings = read_tokenizer_files(folder(tokenizer=model(added_tokens=entries)))
    assert settings.arguments["added_tokens"] == ["[E1]", "[E2]"]
    assert settings.sources["added_tokens"] == "tokenizer.json"
    assert settings.vocabulary == [*TOKENS, "[E1]", "[E2]"]
    for way in LITERAL:
        entries[-1] = entry(8, "[E1]", **LITERAL | {way: True})
        with pytest.warns(UserWarning, match=r"text like any other here: '\[E1\]'\."):
            settings = read_tokenizer_files(folder(tokenizer=model(added_tokens=entries)))
        assert settings.arguments["added_tokens"] == ["[E2]"]


def test_many_added_tokens_are_one_short_warning(folder):
    path = folder(added={f"[E{number}]": number for number in range(8, 200)})
    with pytest.warns(UserWarning) as said:
        assert len(read_tokenizer_files(path).vocabulary) == 200
    assert len(said) == 1
    assert "'[E12]' and 187 more." in str(said[0].message)


# --- Warnings ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"config": {"never_split": ["[E1]", "<b>"]}}, r"`never_split`: '\[E1\]', '<b>'.*not done"),
        ({"tokenizer": model(normalizer=bert(clean_text=False))}, "leaves control characters"),
        (
            {"tokenizer": model(normalizer=sequence({"type": "NFKC"}, sequence(bert())))},
            "normalises by NFKC, which is not done here",
        ),
        (
            {
                "config": {"strip_accents": True},
                "tokenizer": model(normalizer=bert(strip_accents=False)),
            },
            "tokenizer_config.json is obeyed, where `strip_accents` is true, though in tokenizer.j",
        ),
        (
            {
                "config": {"tokenize_chinese_chars": False},
                "tokenizer": model(normalizer=bert(handle_chinese_chars=True)),
            },
            "`tokenize_chinese_chars` is false, though in tokenizer.json `handle_chinese_chars`",
        ),
    ],
    ids=short,
)
def test_what_is_not_done_is_told(folder, files, message):
    with pytest.warns(UserWarning, match=message) as said:
        read_tokenizer_files(folder(**files))
    assert len(said) == 1


def test_accents_as_lower_casing_contradict_nothing(folder):
    path = folder(
        config={"do_lower_case": True, "strip_accents": None},
        tokenizer=model(normalizer=bert(lowercase=True, strip_accents=True)),
    )
    assert read_tokenizer_files(path).arguments["strip_accents"] is None


def test_no_normalizer_is_no_rule(folder):
    path = folder(None, tokenizer=model(normalizer=None))
    with pytest.warns(UserWarning, match="leaves control characters"):
        arguments = read_tokenizer_files(path).arguments
    rules = {"lowercase": False, "strip_accents": False, "split_ideographs": False}
    assert arguments == DEFAULTS | rules


def test_an_old_file_without_types(folder):
    whole = model()
    del whole["model"]["type"]
    assert read_tokenizer_files(folder(None, tokenizer=whole)).vocabulary == TOKENS


# --- Writing -------------------------------------------------------------------------------------

OTHER_NAMES = {
    "pad_token": "<pad>",
    "unknown_token": "<unk>",
    "cls_token": "<s>",
    "sep_token": "</s>",
    "mask_token": "<mask>",
}
ODD = ["tea", "", "##\u2028", "\x85", "é", '"', "\\", "\U0001f600", "a\rb", "##", "cup"]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"lowercase": False},
        {"strip_accents": False},
        {"lowercase": False, "strip_accents": True},
        {"split_ideographs": False},
        {"max_characters_per_word": 200},
        OTHER_NAMES,
        OTHER_NAMES | {"max_characters_per_word": 7, "lowercase": False, "strip_accents": True},
    ],
    ids=short,
)
@pytest.mark.parametrize("length", [512, None])
def test_what_is_written_is_read(tmp_path, settings, length):
    names = [settings.get(name, usual) for name, usual in NAMES.items()]
    tokenizer = WordPieceTokenizer([*names, *ODD], **settings)
    written = write_tokenizer_files(tmp_path, tokenizer, length)
    assert sorted(written) == sorted(path.name for path in tmp_path.iterdir())
    read = read_tokenizer_files(tmp_path)
    assert read.vocabulary == tokenizer.vocabulary
    assert read.arguments == DEFAULTS | settings
    assert read.model_max_length == length
    again = WordPieceTokenizer.from_preset(tmp_path)
    config = again.get_config() | {"name": tokenizer.name}
    assert config == tokenizer.get_config()
    for one in ("vocab.txt", "tokenizer.json"):
        (tmp_path / one).rename(tmp_path / "away")
        assert read_tokenizer_files(tmp_path).vocabulary == tokenizer.vocabulary
        (tmp_path / "away").rename(tmp_path / one)


def test_writing_refuses(tmp_path):
    tokenizer = WordPieceTokenizer(TOKENS)
    with pytest.raises(ValueError, match="at least 1, received 0"):
        write_tokenizer_files(tmp_path, tokenizer, 0)
    with pytest.raises(ValueError, match="has no vocabulary"):
        write_tokenizer_files(tmp_path, WordPieceTokenizer(), None)
    assert not list(tmp_path.iterdir())


def test_a_saved_layer_writes_what_it_was_made_of(tmp_path):
    tokenizer = WordPieceTokenizer.from_config(WordPieceTokenizer(TOKENS).get_config())
    saved = WordPieceTokenizer(TOKENS, lowercase=False)
    (tmp_path / "assets").mkdir()
    saved.save_assets(str(tmp_path / "assets"))
    tokenizer.load_assets(str(tmp_path / "assets"))
    (tmp_path / "out").mkdir()
    write_tokenizer_files(tmp_path / "out", tokenizer, 16)
    assert read_tokenizer_files(tmp_path / "out").vocabulary == TOKENS
