"""Tokenizer files that `transformers` reads from us, and that we read from `transformers`."""

import json
import logging
import unicodedata
import warnings

import pytest
from reference_wordpiece import CODE_POINTS, SWITCHES, letters, switch_id

import keras_bert_zoo as kbz
from keras_bert_zoo.text.tokenizer_files import read_tokenizer_files, write_tokenizer_files
from keras_bert_zoo.text.vocabulary import SPECIAL_TOKENS, read_vocabulary

REASON = "the `parity` extra is not installed"
transformers = pytest.importorskip("transformers", reason=REASON)
tokenizers = pytest.importorskip("tokenizers", reason=REASON)

NAMES = {
    "pad_token": "<pad>",
    "unknown_token": "<unk>",
    "cls_token": "<s>",
    "sep_token": "</s>",
    "mask_token": "<mask>",
}
# Characters that were assigned long ago and have not changed since, so that both know them alike;
# the final sigma is a rule of ours alone.
PLAIN = [
    chr(c)
    for c in CODE_POINTS
    if c < 0x3000 and c != 0x3A3
    if unicodedata.category(chr(c)) == unicodedata.ucd_3_2_0.category(chr(c)) != "Cn"
]
HARD = [
    "",
    " ",
    "Crème BRÛLÉE, naïve façade; Ångström's ǅ ﬁn İıß",
    "차 주세요 안녕하세요 мой Й ёж",
    "中国人民 ｶﾅ かな 𠀀 豈更 don't 3.14 $5 ^`~",
    "a\u0301\u0327 e\u0323\u0302 \u0301 q\u0307\u0323",
    "zero\u200bwidth soft\u00adhyphen nul\x00l tab\tnew\nline\x0bvt\x85nel",
    "w" * 7 + " " + "w" * 8 + " " + "w" * 100 + " " + "w" * 101 + " " + "w" * 201,
    "é" * 100 + " " + "é" * 101,
    "##ing ## #hash un##able",
]
ROWS = 150  # Of each real text.


@pytest.fixture(scope="module")
def texts(shared_data):
    found = []
    for name in ("austen-emma", "carroll-alice", "zh-honglou"):
        lines = (shared_data / f"text/{name}.txt").read_text(encoding="utf-8").split("\n")
        found += [line for line in lines if line][100 : 100 + ROWS]
    runs = ["".join(PLAIN[i : i + 40]) for i in range(0, len(PLAIN), 40)]
    return [*HARD, *runs, *found]


@pytest.fixture(scope="module")
def real(shared_data):
    return read_vocabulary(shared_data / "vocab/bert-base-multilingual-cased/vocab.txt")


@pytest.fixture
def silent():
    """Runs, and fails on any warning, also of the kind that transformers logs."""
    heard = []

    class Listener(logging.Handler):
        def emit(self, record):
            heard.append(record.getMessage())

    listener = Listener(logging.WARNING)
    logger = logging.getLogger("transformers")
    logger.addHandler(listener)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield heard
    logger.removeHandler(listener)
    assert heard == []


def same(tokenizer, theirs, texts, length=48):
    """Holds ids, segments and masks of single texts and pairs to be the same."""
    second = texts[1:] + texts[:1]
    for padding in ("max_length", "longest"):
        preprocessor = kbz.TextPreprocessor(tokenizer, length, padding=padding)
        fitting = [n for n, ids in enumerate(tokenizer(texts)) if len(ids) <= length - 2]
        few = [texts[n] for n in fitting]
        compare(preprocessor(few), theirs(few, padding=padding, max_length=length))
        # Longer ones are cut at their end by both.
        cut = theirs(texts, padding=padding, max_length=length, truncation=True)
        compare(preprocessor(texts), cut)
        together = [
            n
            for n, (a, b) in enumerate(zip(tokenizer(texts), tokenizer(second), strict=True))
            if len(a) + len(b) <= length - 3
        ]
        assert len(together) > 20
        pairs = [texts[n] for n in together], [second[n] for n in together]
        compare(preprocessor(pairs), theirs(*pairs, padding=padding, max_length=length))


def compare(ours, theirs):
    keys = {"input_ids": "token_ids", "token_type_ids": "segment_ids"}
    keys |= {"attention_mask": "padding_mask"}
    assert theirs.keys() == keys.keys()
    for key, name in keys.items():
        assert ours[name].numpy().tolist() == theirs[key]


def their_class(tokenizer):
    """The classes that give all our ids; BertTokenizer always has its limit of 100 characters."""
    auto = transformers.AutoTokenizer
    usual = tokenizer.max_characters_per_word == 100
    return [auto, transformers.BertTokenizer] if usual else [auto]


# --- What we write -------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [100, 7, 200])
@pytest.mark.parametrize("switches", SWITCHES, ids=switch_id)
def test_they_read_what_we_write(tmp_path, texts, switches, limit, silent):
    rules = switches["lowercase"], switches["strip_accents"]
    characters = letters("".join(texts), *rules)
    words = sorted({word[:40] for text in texts for word in text.split()})[::3]
    vocabulary = [*characters, *("##" + c for c in characters), *words]
    vocabulary = [*SPECIAL_TOKENS, *dict.fromkeys(vocabulary)]
    tokenizer = kbz.WordPieceTokenizer(vocabulary, max_characters_per_word=limit, **switches)
    write_tokenizer_files(tmp_path, tokenizer, 512)
    for kind in their_class(tokenizer):
        theirs = kind.from_pretrained(tmp_path)
        assert theirs.model_max_length == 512
        assert len(theirs) == len(vocabulary)
        same(tokenizer, theirs, texts)


@pytest.mark.parametrize("lowercase, strip_accents", [(True, None), (False, None), (True, False)])
def test_real_vocabulary_beside_a_config(tmp_path, texts, real, lowercase, strip_accents, silent):
    tokenizer = kbz.WordPieceTokenizer(real, lowercase=lowercase, strip_accents=strip_accents)
    kbz.EncoderConfig(vocab_size=len(real)).save(tmp_path)
    write_tokenizer_files(tmp_path, tokenizer, None)
    for kind in their_class(tokenizer):
        theirs = kind.from_pretrained(tmp_path)
        assert theirs.model_max_length == int(1e30)
        same(tokenizer, theirs, texts)


@pytest.mark.parametrize("limit", [100, 50])
def test_other_special_tokens(tmp_path, texts, limit, silent):
    characters = letters("".join(texts), True)
    vocabulary = [*characters, *("##" + c for c in characters), *NAMES.values(), "tea"]
    tokenizer = kbz.WordPieceTokenizer(
        vocabulary, max_characters_per_word=limit, special_tokens_in_text=True, **NAMES
    )
    write_tokenizer_files(tmp_path, tokenizer, 64)
    odd = ["a <mask> of tea<mask>!", "<s></s>", "<pad> <unk>tea", "[MASK] <MASK> < mask>"] * 8
    for kind in their_class(tokenizer):
        theirs = kind.from_pretrained(tmp_path)
        named = {ours: getattr(theirs, ours.replace("unknown", "unk")) for ours in NAMES}
        assert named == NAMES
        assert theirs.mask_token_id == tokenizer.mask_id
        same(tokenizer, theirs, [*texts, *odd])


def test_without_tokenizer_json_or_without_vocab_txt(tmp_path, texts, real):
    tokenizer = kbz.WordPieceTokenizer(real, lowercase=False)
    write_tokenizer_files(tmp_path, tokenizer, 512)
    for one in ("tokenizer.json", "vocab.txt"):
        (tmp_path / one).rename(tmp_path / "away")
        same(tokenizer, transformers.BertTokenizer.from_pretrained(tmp_path), texts)
        (tmp_path / "away").rename(tmp_path / one)


def test_they_write_again_what_we_read(tmp_path, texts, real):
    tokenizer = kbz.WordPieceTokenizer(real, lowercase=True, strip_accents=False)
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    write_tokenizer_files(first, tokenizer, 512)
    transformers.AutoTokenizer.from_pretrained(first).save_pretrained(second)
    ours = json.loads((first / "tokenizer.json").read_text(encoding="utf-8"))
    assert json.loads((second / "tokenizer.json").read_text(encoding="utf-8")) == ours
    with pytest.warns(UserWarning, match="the vocabulary"):  # Cased, and lower-cased.
        settings = read_tokenizer_files(second)
    assert settings.arguments == {k: tokenizer.get_config()[k] for k in settings.arguments}
    assert (settings.vocabulary, settings.model_max_length) == (real, 512)


# --- What they write -----------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("strip_accents", [True, False, None])
@pytest.mark.parametrize("ideographs", [True, False])
@pytest.mark.parametrize("lowercase", [True, False])
def test_we_read_what_they_write(tmp_path, texts, real, lowercase, strip_accents, ideographs):
    theirs = transformers.BertTokenizer(
        vocab={token: number for number, token in enumerate(real)},
        do_lower_case=lowercase,
        strip_accents=strip_accents,
        tokenize_chinese_chars=ideographs,
        model_max_length=300,
    )
    theirs.save_pretrained(tmp_path)
    tokenizer = kbz.WordPieceTokenizer.from_preset(tmp_path)
    config = tokenizer.get_config()
    assert (config["lowercase"], config["strip_accents"]) == (lowercase, strip_accents)
    assert config["split_ideographs"] is ideographs
    assert kbz.TextPreprocessor.from_preset(tmp_path, 300).sequence_length == 300
    same(tokenizer, theirs, texts)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("switches", SWITCHES, ids=switch_id)
def test_general_class(tmp_path, texts, real, switches):
    """A tokenizer of the library alone, with its own limit and unknown token."""
    ids = {token: number for number, token in enumerate(real)}
    theirs = tokenizers.Tokenizer(
        tokenizers.models.WordPiece(ids, unk_token="[unused7]", max_input_chars_per_word=9)
    )
    theirs.normalizer = tokenizers.normalizers.Sequence(
        [
            tokenizers.normalizers.BertNormalizer(
                lowercase=switches["lowercase"],
                strip_accents=switches["strip_accents"],
                handle_chinese_chars=switches["split_ideographs"],
            )
        ]
    )
    theirs.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    theirs.post_processor = tokenizers.processors.BertProcessing(
        ("[SEP]", ids["[SEP]"]), ("[CLS]", ids["[CLS]"])
    )
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=theirs,
        cls_token="[CLS]",
        sep_token="[SEP]",
        pad_token="[PAD]",
        mask_token="[MASK]",
        unk_token="[unused7]",
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    ).save_pretrained(tmp_path)
    tokenizer = kbz.WordPieceTokenizer.from_preset(tmp_path)
    assert tokenizer.max_characters_per_word == 9
    assert tokenizer.unknown_token == "[unused7]"
    same(tokenizer, transformers.AutoTokenizer.from_pretrained(tmp_path), texts)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("kind", ["BertTokenizer", "BertTokenizerFast", "PreTrainedTokenizerFast"])
@pytest.mark.parametrize("config", [True, False])
@pytest.mark.parametrize("normalizer", [True, False])
def test_files_that_contradict_each_other(tmp_path, texts, real, kind, config, normalizer):
    write_tokenizer_files(tmp_path, kbz.WordPieceTokenizer(real), 512)
    changes = {"do_lower_case": config, "strip_accents": config, "tokenize_chinese_chars": config}
    change(tmp_path / "tokenizer_config.json", lambda x: x.update(changes, tokenizer_class=kind))
    rules = {"lowercase": normalizer, "strip_accents": normalizer}
    rules["handle_chinese_chars"] = normalizer
    change(tmp_path / "tokenizer.json", lambda x: x["normalizer"].update(rules))
    tokenizer = kbz.WordPieceTokenizer.from_preset(tmp_path)
    same(tokenizer, transformers.AutoTokenizer.from_pretrained(tmp_path), texts)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("decoder", [False, True])
def test_names_that_contradict_each_other(tmp_path, texts, decoder):
    words = [*SPECIAL_TOKENS, "<s>", "tea", *"abcdefgh"]
    write_tokenizer_files(tmp_path, kbz.WordPieceTokenizer(words), 512)
    change(tmp_path / "special_tokens_map.json", lambda x: x.update(cls_token="<s>"))
    if decoder:
        added = {"2": {"content": "[CLS]", "special": True}}
        changes = {"added_tokens_decoder": added}
        change(tmp_path / "tokenizer_config.json", lambda x: x.update(changes))
    tokenizer = kbz.WordPieceTokenizer.from_preset(tmp_path)
    theirs = transformers.BertTokenizer.from_pretrained(tmp_path)
    assert tokenizer.cls_token == theirs.cls_token == ("[CLS]" if decoder else "<s>")
    assert tokenizer.cls_id == theirs.cls_token_id


def test_added_tokens(tmp_path, texts, real):
    theirs = transformers.BertTokenizer(
        vocab={token: number for number, token in enumerate(real)}, do_lower_case=False
    )
    theirs.add_special_tokens({"additional_special_tokens": ["[E1]", "[E2]"]})
    theirs.add_tokens(["teacake"])
    theirs.save_pretrained(tmp_path)
    with pytest.warns(UserWarning, match="text like any other here") as said:
        tokenizer = kbz.WordPieceTokenizer.from_preset(tmp_path)
    assert len(said) == 1
    assert tokenizer.vocabulary_size == len(theirs) == len(real) + 3
    for token in ("[E1]", "[E2]", "teacake"):
        assert tokenizer.token_to_id(token) == theirs.convert_tokens_to_ids(token)
    same(tokenizer, theirs, texts)


def test_added_tokens_of_ours(tmp_path, texts, real):
    tokenizer = kbz.WordPieceTokenizer(real, lowercase=False)
    tokenizer = tokenizer.with_added_tokens(["[E1]", "[/E1]", "tea cup"])
    write_tokenizer_files(tmp_path, tokenizer, 128)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    texts = [*texts[:50], "a [E1]Tea cup[/E1] or tea cups[E1", "[E1][E1] [e1]"]
    for text in texts:
        expected = theirs(text, add_special_tokens=False)["input_ids"]
        assert tokenizer(text).numpy().tolist() == expected, text


def change(path, edit):
    values = json.loads(path.read_text(encoding="utf-8"))
    edit(values)
    path.write_text(json.dumps(values), encoding="utf-8")
