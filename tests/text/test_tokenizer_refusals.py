"""Tokenizer files that are refused, each in one ValueError that says where and why."""

import functools

import pytest
from tokenizer_folders import IDS, TOKENS, bert, entry, model, short, write_folder

from keras_bert_zoo.text.tokenizer_files import read_tokenizer_files


@pytest.fixture
def folder(tmp_path):
    return functools.partial(write_folder, tmp_path / "model")


def refuse(path, message):
    """One ValueError, which names the file or folder."""
    with pytest.raises(ValueError, match=message) as caught:
        read_tokenizer_files(path)
    assert type(caught.value) is ValueError
    assert str(path) in str(caught.value)
    assert len(str(caught.value)) < 600 + len(str(path))


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"added": {"[E1]": 9}}, r"the id 9 to '\[E1\]', but no file has a token for the id 8"),
        ({"added": {"[E1]": 10**12}}, r"the id 1000000000000 to .*no file has .* the id 8"),
        ({"added": {"[E1]": 5}}, r"the id 5 to '\[E1\]', but in vocab.txt it is that of 'tea'"),
        ({"added": {"tea": 8}}, r"the id 8 to 'tea', but in vocab.txt that token has the id 5"),
        (
            {"added": {"[E1]": 8}, "tokenizer": model(added_tokens=[entry(8, "[E2]")])},
            r"tokenizer.json gives the id 8 to '\[E2\]', and added_tokens.json to '\[E1\]'",
        ),
        ({"added": {"[E1]": -1}}, r"added_tokens.json: `\[E1\]` must be a whole number from 0 on"),
        ({"added": {"[E1]": "8"}}, r"added_tokens.json: `\[E1\]` must be a whole number.*'8'"),
        ({"added": {"[E1]": True}}, r"must be a whole number, received True"),
        ({"added": {"[E1]": None}}, r"whole number from 0 on, received NoneType"),
        ({"added": {"\ud800": 8}}, r"the added token 8 holds half a surrogate pair"),
        ({"config": {"added_tokens_decoder": {"x": entry(8, "a")}}}, r"has the key 'x'.*in digits"),
        ({"config": {"added_tokens_decoder": {"-1": entry(8, "a")}}}, r"has the key '-1'"),
        ({"config": {"added_tokens_decoder": {"8": {}}}}, r"`added_tokens_decoder.8` must be"),
        ({"config": {"added_tokens_decoder": []}}, r"must be an object, received a list of 0"),
        ({"tokenizer": model(added_tokens={})}, "`added_tokens` must be a list, received an obj"),
        ({"tokenizer": model(added_tokens=["a"])}, "`added_tokens` must be a list of objects"),
        (
            {"tokenizer": model(added_tokens=[{"id": 8}])},
            r"`added_tokens\[0\].content` must be the token, received nothing",
        ),
        ({"tokenizer": model(added_tokens=[{"content": "a"}])}, r"added_tokens\[0\].id` must be"),
        ({"tokenizer": model(added_tokens=[entry(-3, "a")])}, r"added token 'a' must be.*-3"),
        ({"special": {"additional_special_tokens": [3]}}, r"must be a list of tokens"),
        ({"special": {"additional_special_tokens": "[E1]"}}, r"must be a list or an object"),
    ],
    ids=short,
)
def test_added_tokens_that_are_wrong(folder, files, message):
    refuse(folder(**files), message)


def ids_with(**changes):
    return IDS | changes


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ({}, "`model.vocab` must be an object .* received an object of 0"),
        (TOKENS, "`model.vocab` must be an object, received a list of 8"),
        (None, "`model.vocab` must be .* received null"),
        (ids_with(tea=6), "gives the id 6 to 'tea' and to '##pot'"),
        (ids_with(cup=8), r"has 8 tokens, but none has the id 7; the largest id is 8"),
        (ids_with(cup=10**12), r"none has the id 7; the largest id is 1000000000000"),
        (ids_with(tea="5"), "of 'tea' must be a whole number from 0 on, received str '5'"),
        (ids_with(tea=5.0), "received float 5.0"),
        (ids_with(tea=True), "received bool True"),
        (ids_with(tea=None), "received NoneType None"),
        (ids_with(tea=[5]), "received list"),
        (ids_with(tea=-5), "received int -5"),
        (IDS | {"\ud800": 8}, "Token 8 holds half a surrogate pair"),
        (IDS | {"a\nb": 8}, "has a line end"),
    ],
    ids=short,
)
def test_vocabularies_that_are_wrong(folder, ids, message):
    refuse(folder(None, tokenizer=model(ids)), message)


@pytest.mark.parametrize(
    ("whole", "message"),
    [
        ({}, "`model` must be an object.*received nothing"),
        ({"model": []}, "`model` must be an object, received a list of 0"),
        (model(**{"model.type": "BPE"}), "`model.type` must be \"WordPiece\".*received 'BPE'"),
        ({"model": {"vocab": IDS, "merges": []}}, "`model.type` must be"),
        (model(**{"model.continuing_subword_prefix": "@@"}), "prefix` must be '##', received '@@'"),
        (model(**{"model.max_input_chars_per_word": 0}), "must be at least 1, received 0"),
        (model(**{"model.max_input_chars_per_word": "100"}), "must be a whole number"),
        (model(**{"model.unk_token": 1}), "`model.unk_token` must be a text, received 1"),
        (model(normalizer={"type": "NFC"}), "`normalizer` is NFC"),
        (model(normalizer={"type": "Sequence", "normalizers": []}), "`normalizer` is empty"),
        (
            model(normalizer={"type": "Sequence", "normalizers": {}}),
            "`normalizer.normalizers` must be a list",
        ),
        (model(normalizer={"type": "Sequence", "normalizers": [3]}), "must be a list of objects"),
        (model(normalizer=[]), "`normalizer` must be an object"),
        (model(normalizer=bert(lowercase="yes")), "`normalizer.lowercase` must be true or false"),
        (model(normalizer=bert(lowercase=1)), "`normalizer.lowercase` must be true or false"),
        (model(pre_tokenizer={"type": "ByteLevel"}), "`pre_tokenizer` is ByteLevel"),
        (
            model(pre_tokenizer={"type": "Sequence", "pretokenizers": [{"type": "Digits"}]}),
            "`pre_tokenizer` is Digits",
        ),
    ],
    ids=short,
)
def test_models_that_are_wrong(folder, whole, message):
    refuse(folder(None, tokenizer=whole), message)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"config": {"do_lower_case": "false"}}, "`do_lower_case` must be true or false.*'false'"),
        ({"config": {"do_lower_case": 1}}, "`do_lower_case` must be true or false, received 1"),
        ({"config": {"strip_accents": []}}, "`strip_accents` must be true or false"),
        ({"config": {"tokenize_chinese_chars": {}}}, "`tokenize_chinese_chars` must be true or f"),
        ({"config": {"cls_token": 101}}, "`cls_token` must be a text or an object, received 101"),
        ({"config": {"cls_token": ["[CLS]"]}}, "`cls_token` must be a text or an object"),
        ({"config": {"cls_token": {"text": "a"}}}, "`cls_token` must be .*whose `content` is one"),
        ({"config": {"cls_token": {"content": 3}}}, "`cls_token.content` must be a text"),
        ({"special": {"mask_token": False}}, "special_tokens_map.json: `mask_token` must be a"),
        ({"config": {"do_basic_tokenize": False}}, "`do_basic_tokenize` must be true"),
        ({"config": {"never_split": "[MASK]"}}, "`never_split` must be a list"),
        ({"config": {"model_max_length": "512"}}, "`model_max_length` must be .*'512'"),
        ({"config": {"model_max_length": 0}}, "must be a whole number from 1 on, received 0"),
        ({"config": {"model_max_length": -512}}, "received -512"),
        ({"config": {"model_max_length": 51.5}}, "received 51.5"),
        ({"config": {"model_max_length": True}}, "received True"),
        ({"config": b'{"model_max_length": NaN}'}, "received nan"),
        ({"config": {"tokenizer_class": 3}}, "`tokenizer_class` must be a text"),
    ],
    ids=short,
)
def test_settings_that_are_wrong(folder, files, message):
    refuse(folder(**files), message)


@pytest.mark.parametrize(
    "kind",
    """RobertaTokenizer RobertaTokenizerFast AlbertTokenizer XLNetTokenizer GPT2Tokenizer
    XLMRobertaTokenizer T5TokenizerFast DebertaV2Tokenizer BertJapaneseTokenizer BigBirdTokenizer
    BertGenerationTokenizer CamembertTokenizer LlamaTokenizer""".split(),
)
def test_other_kinds_of_tokenizers(folder, kind):
    refuse(folder(config={"tokenizer_class": kind}), f"`tokenizer_class` is '{kind}'")
    refuse(folder(None, config={"tokenizer_class": kind}), f"`tokenizer_class` is '{kind}'")


FILES = ["tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b" \n", "is empty"),
        (b"{", "is no JSON"),
        (b'{"a": 1,}', "is no JSON"),
        (b"{'a': 1}", "is no JSON"),
        (b"version https://git-lfs.github.com/spec/v1\n", "is no JSON"),
        (b"[]", "must hold a JSON object, received a list of 0"),
        (b"null", "must hold a JSON object, received null"),
        (b'"a"', "must hold a JSON object, received 'a'"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a":' * 100_000, "nested too deeply"),
        (b'{"a": ' + b"9" * 5000 + b"}", "is no JSON"),
        (b'{"a": "\xff"}', "is not a text file in UTF-8"),
        ('{"a": 1}'.encode("utf-16"), "is not a text file in UTF-8"),
    ],
    ids=lambda x: repr(x[:20]),
)
def test_files_that_are_no_json(folder, name, content, message):
    path = folder()
    (path / name).write_bytes(content)
    refuse(path, rf"{name}.* {message}|{name} {message}")


@pytest.mark.parametrize("name", [*FILES, "vocab.txt"])
def test_files_that_are_too_large(folder, name):
    path = folder()
    with open(path / name, "wb") as file:
        file.truncate(2**40)  # A hole, which takes no space.
    refuse(path, f"{name} has 1,099,511,627,776 bytes, more than")


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "no tokens"), (b"[PAD]\n\xff\n", "not a text file"), (b"a\nb\na\n", "'a' twice")],
)
def test_vocab_files_that_are_wrong(folder, content, message):
    path = folder(tokenizer=model())
    (path / "vocab.txt").write_bytes(content)
    refuse(path, message)


def test_a_byte_order_mark_is_no_harm(folder):
    path = folder(config=b'\xef\xbb\xbf{"model_max_length": 64}')
    assert read_tokenizer_files(path).model_max_length == 64


@pytest.mark.parametrize(
    ("vocab", "message"),
    [
        ([*TOKENS[:6], "##pots", "cup"], "token 6 differs: vocab.txt '##pots', tokenizer.json '##"),
        ([*TOKENS[:5], "cup", "##pot", "tea"], "token 5 differs: vocab.txt 'cup', tokenizer.json"),
        ([*TOKENS, "cake"], "token 8 differs: vocab.txt 'cake', tokenizer.json has none"),
        (TOKENS[:-1], "token 7 differs: vocab.txt has none, tokenizer.json 'cup'"),
    ],
)
def test_two_vocabularies_that_differ(folder, vocab, message):
    refuse(folder(vocab, tokenizer=model()), message)
