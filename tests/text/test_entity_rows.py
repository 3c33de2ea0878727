"""Markers and masks around two entities: in every order, at every edge, at every length."""

import numpy as np
import pytest
import tensorflow as tf
from tiny import VOCABULARY

import keras_bert_zoo as kbz
from keras_bert_zoo.text.entity_rows import entity_rows
from keras_bert_zoo.text.entity_tags import check_entities, read_tags

TOKENIZER = kbz.WordPieceTokenizer([*VOCABULARY, "$", "#", "ofs", "e", "##e"])


def read(tagged, length=40, markers=("$", "#"), **settings):
    """Rows as lists of words, and the words of either entity."""
    rows = [read_tags(text) for text in ([tagged] if isinstance(tagged, str) else tagged)]
    spans = np.array([[*row.entity_1, *row.entity_2] for row in rows]).T
    packed = entity_rows(TOKENIZER, [row.text for row in rows], spans, markers, length, **settings)
    words = np.array(TOKENIZER.vocabulary)[packed["token_ids"].numpy()]
    picked = [
        [row[mask > 0].tolist() for row, mask in zip(words, packed[name].numpy(), strict=True)]
        for name in ("padding_mask", "entity_1_mask", "entity_2_mask")
    ]
    assert not packed["segment_ids"].numpy().any()
    return [part[0] for part in picked] if isinstance(tagged, str) else picked


@pytest.mark.parametrize(
    "tagged, row, first, second",
    [
        (
            "The <e1>cup</e1> of a <e2>bad film</e2>.",
            "the $ cup $ of a # bad film # .",
            "cup",
            "bad film",
        ),
        ("<e2>Tea</e2> of <e1>Paris</e1>", "# tea # of $ paris $", "paris", "tea"),
        ("<e1>tea</e1><e2>cups!</e2>", "$ tea $ # cup ##s ! #", "tea", "cup ##s !"),
        # An edge within a word cuts it, as a marker written there would.
        ("of<e1>s</e1> the <e2>tea</e2>ing", "of $ [UNK] $ the # tea # [UNK]", "[UNK]", "tea"),
        ("is <e1> tea </e1> a <e2>$</e2> ?", "is $ tea $ a # $ # ?", "tea", "$"),
        # Characters of several bytes before, within and behind.
        ("«é» <e1>é́tea</e1> \U0001f375 <e2>fine</e2>é", None, "[UNK]", "fine"),
    ],
)
def test_markers_and_masks(tagged, row, first, second):
    words, *entities = read(tagged)
    assert entities == [first.split(), second.split()]
    if row is not None:
        assert words == ["[CLS]", *row.split(), "[SEP]"]
    else:
        assert words.count("$") == words.count("#") == 2
    plain, *same = read(tagged, markers=None)
    assert same == entities
    without = [[word for word in row if word not in "$#"] for row in (plain, words)]
    assert without[0] == without[1] and len(plain) == len(words) - 4


def test_ids_are_those_of_text_with_the_markers_written_into_it(shared_data):
    tokenizer = kbz.WordPieceTokenizer(shared_data / "vocab/bert-base-uncased/vocab.txt")
    path = shared_data / "semeval2010_task8/TEST_FILE_FULL.TXT"
    lines = [line.split("\t")[1].strip() for line in path.read_text().splitlines() if "\t" in line]
    tagged = [line[1:-1] for line in lines]
    rows = [read_tags(text) for text in tagged]
    spans = np.array([[*row.entity_1, *row.entity_2] for row in rows]).T
    packed = entity_rows(tokenizer, [row.text for row in rows], spans, ("$", "#"), 128)
    for tag, marker in (("<e1>", "$"), ("</e1>", "$"), ("<e2>", "#"), ("</e2>", "#")):
        tagged = [text.replace(tag, f" {marker} ") for text in tagged]
    expected = kbz.TextPreprocessor(tokenizer, 128)(tagged)
    for name, value in expected.items():
        np.testing.assert_array_equal(packed[name], value)
    for row, entity, mask in (
        (rows, "entity_1", packed["entity_1_mask"]),
        (rows, "entity_2", packed["entity_2_mask"]),
    ):
        picked = tf.ragged.boolean_mask(packed["token_ids"], mask > 0)
        alone = tokenizer([r.text[slice(*getattr(r, entity))] for r in row])
        assert picked.to_list() == alone.to_list()


LONG = "a a a a a a <e1>tea</e1> is is is <e2>cup</e2> of of of of of of"


@pytest.mark.parametrize(
    "length, expected",
    [
        (23, "a a a a a a $ tea $ is is is # cup # of of of of of of"),
        (22, "a a a a a a $ tea $ is is is # cup # of of of of of"),
        (14, "a a $ tea $ is is is # cup # of"),
        (12, "a $ tea $ is is is # cup # of"),
        # The stretch no longer fits: what is nearest to either entity is left.
        (11, "$ tea $ is is is # cup #"),
        (10, "a $ tea $ is # cup #"),
        (8, "$ tea $ # cup #"),
    ],
)
def test_a_long_text_is_cut_around_its_entities(length, expected):
    words, *entities = read(LONG, length)
    assert entities == [["tea"], ["cup"]]
    assert len(words) <= length
    if length in (14, 12):
        # One token more on the left than on the right, or equally many.
        left, right = (
            words.index("$") - 1,
            len(words) - 2 - (len(words) - 1 - words[::-1].index("#")),
        )
        assert left - right in (0, 1) and len(words) == length
        assert [w for w in words if w == "is"] == ["is"] * 3
    else:
        assert words[1:-1] == expected.split()


def test_entities_at_the_ends_of_a_long_text():
    words, *entities = read("<e1>tea</e1>" + " a" * 50 + " <e2>cup</e2>", 14)
    assert words == "[CLS] $ tea $ a a a a a a # cup # [SEP]".split()
    assert entities == [["tea"], ["cup"]]
    words, *entities = read("a " * 50 + "<e2>tea</e2> <e1>cup</e1>", 12, markers=None)
    assert words == ["[CLS]", *["a"] * 8, "tea", "cup", "[SEP]"]
    assert entities == [["cup"], ["tea"]]


def test_rows_of_a_batch_do_not_meddle_with_each_other():
    texts = [LONG, "<e2>tea</e2> <e1>is</e1>", "good <e1>cup</e1> of <e2>tea</e2> ."]
    for length in (8, 12, 40):
        together = read(texts, length, padding="longest")
        apart = [read(text, length) for text in texts]
        assert [list(row) for row in zip(*together, strict=True)] == apart


def test_no_texts_at_all():
    none = tf.zeros([0], tf.int32)
    rows = entity_rows(TOKENIZER, tf.zeros([0], tf.string), [none] * 4, ("$", "#"), 12)
    assert {tuple(part.shape) for part in rows.values()} == {(0, 12)}


@pytest.mark.parametrize(
    "text, spans, message",
    [
        ("a cup of tea", (2, 5, 9, 13), "must be characters of its text"),
        ("a cup of tea", (-1, 5, 9, 12), "must be characters of its text"),
        ("a cup of tea", (5, 5, 9, 12), "must be characters of its text"),
        ("a cup of tea", (2, 5, 12, 9), "must be characters of its text"),
        ("a cup of tea", (2, 10, 9, 12), "overlap"),
        ("a \u200b of tea", (2, 3, 7, 10), "no tokens"),
        ("a cup of tea a a a", (2, 5, 9, 18), r"do not fit into 9 tokens"),
    ],
)
def test_bad_entities(text, spans, message):
    texts, spans = [text, "tea cup"], np.array([spans, (0, 3, 4, 7)]).T
    with pytest.raises(ValueError, match=message):
        entity_rows(TOKENIZER, texts, spans, ("$", "#"), 9)
    in_graph = tf.function(lambda t, s: entity_rows(TOKENIZER, t, tf.unstack(s), ("$", "#"), 9))
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        in_graph(tf.constant(texts), tf.constant(spans))


@pytest.mark.parametrize(
    "tagged, message",
    [
        ("a cup of tea", "The tags here are none"),
        ("a <e1>cup</e1> of tea", "The tags here are <e1> </e1>:"),
        ("<e1>a</e1> <e1>cup</e1> of <e2>tea</e2>", "each once"),
        ("<e1>a <e2>cup</e2></e1> of tea", "one behind the other"),
        ("</e1>a<e1> <e2>cup</e2>", "one behind the other"),
        ("<e1></e1>a <e2>cup</e2>", "from a start to an end past its last"),
        ("<e1> </e1>a <e2>cup</e2>", "entity 1 is blank"),
    ],
)
def test_bad_tags(tagged, message):
    with pytest.raises(ValueError, match=message):
        read_tags(tagged)


def test_overlapping_entities():
    check_entities("a cup of tea", (9, 12), (2, 5))
    for pair in (((2, 5), (4, 8)), ((4, 8), (2, 5)), ((0, 12), (2, 5))):
        with pytest.raises(ValueError, match="overlap"):
            check_entities("a cup of tea", *pair)
