"""The tokenizer as a layer: its rules in single cases, and its inputs."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from graph_nodes import functions_of, operations_in_functions

from keras_bert_zoo.text.vocabulary import SPECIAL_TOKENS
from keras_bert_zoo.text.wordpiece import WordPieceTokenizer

TOKENS = [*SPECIAL_TOKENS, "tea", "##pot", "cup", "##s", "s", "中", "[", "]", "mask", "ο", "##ς"]


@pytest.fixture(scope="module")
def uncased(shared_data):
    return WordPieceTokenizer(shared_data / "vocab/bert-base-uncased/vocab.txt")


@pytest.fixture(scope="module")
def small():
    return WordPieceTokenizer(TOKENS)


def pieces(tokenizer, text):
    return [tokenizer.id_to_token(int(token_id)) for token_id in tokenizer(text)]


# --- Rules ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("rain\x00bow and tea\x85spoon", ["rainbow", "and", "tea", "##sp", "##oon"]),  # BC-T01
        ("sun\x97flower", ["sun", "##flower"]),
        ("sun\u200bflower\ufffd\u00ad", ["sun", "##flower"]),
        ("차 주세요", ["ᄎ", "##ᅡ", "ᄌ", "##ᅮ", "##ᄉ", "##ᅦ", "##ᄋ", "##ᅭ"]),  # BC-T04
        ("Naïve ÉTÉ", ["naive", "et", "##e"]),
        ("a\u2028b\u2029c\u3000d", ["a", "b", "c", "d"]),
        ("tea$^`cup", ["tea", "$", "^", "`", "cup"]),
        ("x≠y", ["x", "=", "y"]),
        ("ΟΔΟΣ ΣΑΣ", ["ο", "##δ", "##ος", "σ", "##α", "##ς"]),
        ("", []),
        ("\u0301 \0", []),
    ],
)
def test_uncased(uncased, text, expected):
    assert pieces(uncased, text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("안녕", ["안녕"]),  # BC-T04
        ("naïve", ["naïve"]),  # BC-T06
        ("мой", ["мой"]),
        ("cafe\u0301", ["cafe", "##\u0301"]),
        ("café", ["café"]),
        ("CAFE", ["[UNK]"]),
    ],
)
def test_cased_leaves_characters_alone(text, expected):
    tokens = [*SPECIAL_TOKENS, "안녕", "naïve", "мой", "café", "cafe", "##\u0301"]
    assert pieces(WordPieceTokenizer(tokens, lowercase=False), text) == expected


def test_uncased_drops_accents():  # BC-T06
    tokenizer = WordPieceTokenizer([*SPECIAL_TOKENS, "naive", "мои"])
    assert pieces(tokenizer, "naïve мой") == ["naive", "мои"]


def test_word_limit_counts_characters(uncased, shared_data):  # BC-T07
    unknown = [uncased.unk_id]
    assert len(uncased("w" * 100)) == 98
    assert uncased("w" * 101).numpy().tolist() == unknown
    assert uncased("w" * 201).numpy().tolist() == unknown
    for count in (50, 51, 100):
        assert len(uncased("ж" * count)) == count
    assert uncased("ж" * 101).numpy().tolist() == unknown
    # Normalised characters: 100 letters with accents, of two bytes or two code points each.
    assert uncased("й" * 100).numpy().tolist() == uncased("и\u0306" * 100).numpy().tolist()
    assert len(uncased("й" * 100)) > 1
    assert uncased("차" * 51).numpy().tolist() == unknown
    google = WordPieceTokenizer(
        shared_data / "vocab/bert-base-uncased/vocab.txt", max_characters_per_word=200
    )
    assert len(google("w" * 101)) == 99
    assert len(google("w" * 200)) > 1
    assert google("w" * 201).numpy().tolist() == unknown
    with pytest.raises(ValueError, match="at least 1, received 0"):
        WordPieceTokenizer(TOKENS, max_characters_per_word=0)


def test_special_tokens_in_text(uncased, shared_data):  # BC-S01
    text = "book [MASK] now"
    assert uncased(text).numpy().tolist() == [2338, 1031, 7308, 1033, 2085]
    path = shared_data / "vocab/bert-base-uncased/vocab.txt"
    for tokenizer in (
        WordPieceTokenizer(path, special_tokens_in_text=True),
        uncased.recognising_special_tokens(),
    ):
        assert tokenizer(text).numpy().tolist() == [2338, 103, 2085]
        assert pieces(tokenizer, "a[MASK]b[SEP][PAD]") == ["a", "[MASK]", "b", "[SEP]", "[PAD]"]
        assert pieces(tokenizer, "[mask] [ MASK]") == ["[", "mask", "]", "[", "mask", "]"]
        # A word's last sigma is last also before a special token.
        assert pieces(tokenizer, "ΟΣ[CLS]") == ["ο", "##ς", "[CLS]"]
    # A limit that is shorter than the literal itself.
    short = WordPieceTokenizer(TOKENS, special_tokens_in_text=True, max_characters_per_word=1)
    assert pieces(short, "s [MASK] tea") == ["s", "[MASK]", "[UNK]"]


def test_other_special_tokens():
    tokens = ["tea", "<s>", "</s>", "<pad>", "<unk>", "<m>", "<m>!", "[", "]", "mask", "<", ">"]
    names = {"cls_token": "<s>", "sep_token": "</s>", "pad_token": "<pad>"}
    names |= {"unknown_token": "<unk>", "mask_token": "<m>"}
    tokenizer = WordPieceTokenizer(tokens, **names)
    assert pieces(tokenizer, "tea <m> [MASK]") == ["tea", "<", "<unk>", ">", "[", "mask", "]"]
    knowing = tokenizer.recognising_special_tokens()
    assert pieces(knowing, "tea<m></s>[MASK]") == ["tea", "<m>", "</s>", "[", "mask", "]"]
    assert knowing.detokenize([1, 0, 2, 3]).numpy() == b"<s> tea </s>"
    with pytest.raises(ValueError, match=r"lacks \[CLS\], \[SEP\].*cls_token="):
        WordPieceTokenizer(tokens, pad_token="<pad>", unknown_token="<unk>", mask_token="<m>")


def test_the_longest_special_token_is_meant():
    tokens = [*SPECIAL_TOKENS[:4], "<m>", "<m>>", "tea"]
    names = {"mask_token": "<m>", "sep_token": "<m>>", "special_tokens_in_text": True}
    tokenizer = WordPieceTokenizer(tokens, **names)
    assert pieces(tokenizer, "<m>tea<m>>tea") == ["<m>", "tea", "<m>>", "tea"]


@pytest.mark.parametrize("name", ["cls_token", "sep_token", "pad_token", "mask_token"])
@pytest.mark.parametrize("token", ["[UNK]", "", None, 3])
def test_special_tokens_must_be_five(name, token):
    with pytest.raises(ValueError, match="must be five different tokens, received .*UNK"):
        WordPieceTokenizer(TOKENS, **{name: token})


# --- Inputs --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    ["tea", b"tea", np.str_("tea"), tf.constant("tea"), np.array("tea"), np.array("tea", object)],
    ids=lambda x: type(x).__name__,
)
def test_one_text(small, text):  # BC-T11
    ids = small(text)
    assert ids.dtype == tf.int32
    assert ids.numpy().tolist() == [5]
    assert small.tokenize(text).numpy().tolist() == [5]


@pytest.mark.parametrize(
    "texts",
    [
        ["tea", "cups tea"],
        ("tea", "cups tea"),
        [b"tea", "cups tea"],
        np.array(["tea", "cups tea"]),
        np.array(["tea", "cups tea"], object),
        np.array([b"tea", b"cups tea"]),
        tf.constant(["tea", "cups tea"]),
        [tf.constant("tea"), tf.constant("cups tea")],
    ],
    ids=lambda x: type(x).__name__,
)
def test_batches(small, texts):  # BC-T11
    ids = small(texts)
    assert isinstance(ids, tf.RaggedTensor)
    assert ids.dtype == tf.int32
    assert ids.to_list() == [[5], [7, 8, 5]]


@pytest.mark.parametrize(
    "texts",
    [[], (), np.array([], object), np.array([], "<U3"), tf.constant([], tf.string)],
    ids=lambda x: type(x).__name__,
)
def test_empty_batches(small, texts):  # BC-T11
    ids = small(texts)
    assert (ids.shape[0], ids.dtype) == (0, tf.int32)
    assert ids.to_list() == []


@pytest.mark.parametrize(
    ("texts", "shown"),
    [
        ([["tea"]], r"shape \(1, 1\)"),
        (tf.constant([["tea"]]), r"shape \(1, 1\)"),
        (np.array([["tea"]]), r"shape \(1, 1\)"),
        ([["tea"], ["tea", "cup"]], "received list"),
        (3, "received int: 3"),
        ([1, 2], r"received list: \[1, 2\]"),
        (["tea", None], "None"),
        (None, "received NoneType"),
        (tf.constant([1, 2]), r"dtype int32, shape \(2,\)"),
        (np.array([1.5]), "received ndarray"),
        (tf.ragged.constant([["tea"]]), "RaggedTensor"),
        ("\ud800", r"half a surrogate pair at character 0: '.ud800'"),
    ],
    ids=str,
)
def test_wrong_inputs(small, texts, shown):
    with pytest.raises(ValueError, match=shown):
        small(texts)
    with pytest.raises(ValueError, match=shown):
        small.tokenize_with_spans(texts)


def test_unknown_rank_is_refused_when_traced(small):
    spec = tf.TensorSpec(None, tf.string)
    with pytest.raises(ValueError, match=r"received shape <unknown>"):
        tf.function(lambda x: small(x).values).get_concrete_function(spec)


# --- Vocabulary ----------------------------------------------------------------------------------


def test_vocabulary_lookups(small):
    assert small.vocabulary == TOKENS
    assert small.vocabulary_size == len(TOKENS)
    assert (small.token_to_id("cup"), small.id_to_token(7)) == (7, "cup")
    assert (small.pad_id, small.unk_id, small.cls_id, small.sep_id, small.mask_id) == (
        0,
        1,
        2,
        3,
        4,
    )
    assert small.special_ids == (0, 1, 2, 3, 4)
    assert WordPieceTokenizer(TOKENS[::-1]).special_ids == (11, 12, 13, 14, 15)
    mask = small.continuation_mask
    assert mask.dtype == bool
    assert np.flatnonzero(mask).tolist() == [6, 8, 15]
    with pytest.raises(ValueError, match="16 tokens has no 'coffee'"):
        small.token_to_id("coffee")
    for token_id in (-1, 16):
        with pytest.raises(ValueError, match=f"id {token_id}: ids are 0 to 15"):
            small.id_to_token(token_id)


def test_detokenize(small):
    assert small.detokenize([5, 6, 8, 7, 0]).numpy() == b"teapots cup"
    batch = small.detokenize(small(["tea cups", "", "teapot"]))
    assert batch.numpy().tolist() == [b"tea cups", b"", b"teapot"]
    assert small.detokenize(np.array([[2, 5, 3, 0]])).numpy().tolist() == [b"[CLS] tea [SEP]"]


# --- As a layer ----------------------------------------------------------------------------------


def test_symbolic_inputs_are_checked(small):
    with pytest.raises(ValueError, match=r"received shape \(None, 1\)"):
        small(keras.Input((1,), dtype="string"))
    with pytest.raises(ValueError, match="dtype float32"):
        small(keras.Input(()))


def test_in_graphs(small):
    texts = ["tea", "", "cups ΟΣ"]
    expected = small(texts).to_list()
    spec = tf.TensorSpec([None], tf.string)
    assert tf.function(small, input_signature=[spec])(tf.constant(texts)).to_list() == expected
    # First used inside of a graph: the operation must outlive it.
    fresh = WordPieceTokenizer(TOKENS)
    dataset = tf.data.Dataset.from_tensor_slices(texts)
    assert [x.numpy().tolist() for x in dataset.map(fresh)] == expected
    assert [x.to_list() for x in dataset.batch(3).map(fresh)] == [expected]
    assert fresh(texts).to_list() == expected
    spans = next(iter(dataset.batch(3).map(fresh.tokenize_with_spans)))
    assert spans.token_ids.to_list() == expected


def test_only_one_operation_is_not_tensorflows(small):
    spec = tf.TensorSpec([None], tf.string)
    tokenizer = WordPieceTokenizer(TOKENS, special_tokens_in_text=True)
    for function in (tokenizer, tokenizer.tokenize_with_spans):
        graph = tf.function(function).get_concrete_function(spec).graph.as_graph_def()
        names = {node.op for node in graph.node} | operations_in_functions(graph)
        names -= {function.signature.name for function in functions_of(graph)}
        assert {name for name in names if not hasattr(tf.raw_ops, name)} == {
            "FastWordpieceTokenizeWithOffsets"
        }


def test_batched_in_a_pipeline_is_one_by_one(uncased, shared_data):  # BC-U03
    lines = (shared_data / "text/austen-emma.txt").read_text(encoding="utf-8").split("\n")[:1000]
    dataset = tf.data.Dataset.from_tensor_slices(lines)
    batched = dataset.batch(300).map(uncased, num_parallel_calls=tf.data.AUTOTUNE).prefetch(2)
    together = [row for batch in batched for row in batch.to_list()]
    assert together == [ids.numpy().tolist() for ids in dataset.map(uncased)]
