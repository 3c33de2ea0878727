"""Spans of tags and their schemes, by hand, by round trips and against seqeval."""

import random

import pytest

from keras_bert_zoo.metrics.tagging import (
    SCHEMES,
    convert_tags,
    find_spans,
    split_tag,
    write_tags,
)


@pytest.mark.parametrize(
    "tag, parts",
    [
        ("O", ("O", "")),
        ("B-PER", ("B", "PER")),
        ("I-a-b", ("I", "a-b")),
        ("S", ("S", "_")),
        ("E-", ("E", "_")),
    ],
)
def test_split(tag, parts):
    assert split_tag(tag) == parts


@pytest.mark.parametrize("tag", ["", "o", "PER", "PER-B", "L-PER", "X", "BI-PER", "BPER", None, 3])
def test_what_is_no_tag(tag):
    with pytest.raises(ValueError, match="A tag is 'O', or one of B, I, E and S"):
        split_tag(tag)


def spans(text, scheme=None):
    return [tuple(span) for span in find_spans(text.split(), scheme)]


def test_lenient_rules_by_hand():
    # IOB2 and IOB1 at once.
    assert spans("B-A I-A O I-A I-A") == [("A", 0, 2), ("A", 3, 5)]
    assert spans("I-A I-A B-A") == [("A", 0, 2), ("A", 2, 3)]
    # A new type begins a new span, whatever its letter; O alone parts equal ones.
    assert spans("B-A I-B I-B") == [("A", 0, 1), ("B", 1, 3)]
    assert spans("I-A O I-A") == [("A", 0, 1), ("A", 2, 3)]
    # E ends a span, S is one, also where neither fits.
    assert spans("B-A E-A E-A I-A S-A S-A") == [
        ("A", 0, 2),
        ("A", 2, 3),
        ("A", 3, 4),
        ("A", 4, 5),
        ("A", 5, 6),
    ]
    assert spans("B I O B-_") == [("_", 0, 2), ("_", 3, 4)]
    assert spans("") == spans("O O") == []


def test_strict_rules_by_hand():
    assert spans("I-A B-A I-A I-B", "IOB2") == [("A", 1, 3)]
    assert spans("B-A I-A E-A S-B B-B O I-A E-A", "BIOES") == [("A", 0, 3), ("B", 3, 4)]
    assert spans("I-A B-A I-A O B-A I-A", "IOB1") == [("A", 0, 1), ("A", 1, 3), ("A", 5, 6)]
    # seqeval's ways with a B before a B of another type.
    assert spans("I-A B-A B-B", "IOB1") == [("A", 0, 1)]
    for scheme in ("IOB1", "IOB2"):
        with pytest.raises(ValueError, match=f"{scheme} has the letters B, I and O.*'E-A'"):
            find_spans(["O", "E-A"], scheme)
    with pytest.raises(ValueError, match="scheme must be one of .*received 'iob2'"):
        find_spans(["O"], "iob2")


def test_writing_by_hand():
    some = find_spans("B-A I-A B-A B-B O B-A I-A I-A".split())
    assert write_tags(some, 8, "IOB2") == "B-A I-A B-A B-B O B-A I-A I-A".split()
    assert write_tags(some, 8, "IOB1") == "I-A I-A B-A I-B O I-A I-A I-A".split()
    assert write_tags(some, 8, "BIOES") == "B-A E-A S-A S-B O B-A I-A E-A".split()
    assert write_tags(reversed(some), 8) == write_tags(some, 8, "IOB2")
    assert write_tags([], 2) == ["O", "O"]


@pytest.mark.parametrize("wrong", [[("A", 0, 2), ("B", 1, 3)], [("A", 1, 1)], [("A", 2, 5)]])
def test_spans_that_cannot_be_written(wrong):
    with pytest.raises(ValueError, match="lie within the sentence of 4 and not overlap"):
        write_tags(wrong, 4)


def random_tags(draw, scheme, types=("A", "B", "C-D")):
    """Any tags at all, or the tags of random spans."""
    length = draw.randint(0, 12)
    if draw.random() < 0.5:
        letters = "BIES" if scheme == "BIOES" else "BI"
        return [
            draw.choice(["O", f"{draw.choice(letters)}-{draw.choice(types)}"])
            for _ in range(length)
        ]
    chosen, place = [], 0
    while place < length:
        end = min(length, place + draw.randint(1, 3))
        if draw.random() < 0.7:
            chosen.append((draw.choice(types), place, end))
        place = end
    return write_tags(chosen, length, scheme)


def test_round_trips():
    draw = random.Random(1)
    for _ in range(500):
        tags = random_tags(draw, "BIOES")
        some = find_spans(tags)
        for scheme in SCHEMES:
            written = write_tags(some, len(tags), scheme)
            assert find_spans(written) == find_spans(written, scheme) == some
            assert convert_tags(written, scheme, scheme) == written
            for target in SCHEMES:
                assert convert_tags(written, target, scheme) == write_tags(some, len(tags), target)
                assert convert_tags(tags, target) == write_tags(some, len(tags), target)


@pytest.mark.parametrize(
    "scheme, tags, place",
    [("IOB2", "O I-A", 1), ("IOB1", "B-A I-A", 0), ("BIOES", "S-A B-A O", 1)],
)
def test_tags_of_another_scheme_are_not_converted(scheme, tags, place):
    with pytest.raises(ValueError, match=f"no {scheme} tags, from place {place} on"):
        convert_tags(tags.split(), "IOB2", scheme)


def test_real_tags(shared_data):
    text = (shared_data / "wikigold" / "wikigold.conll.txt").read_text("utf-8")
    sentences = [
        [line.split(" ")[-1] for line in block.split("\n") if line] for block in text.split("\n\n")
    ]
    number = 0
    for tags in sentences:
        second = convert_tags(tags, "IOB2", "IOB1")
        assert find_spans(second, "IOB2") == find_spans(tags, "IOB1") == find_spans(tags)
        assert convert_tags(convert_tags(second, "BIOES", "IOB2"), "IOB1", "BIOES") == tags
        number += len(find_spans(tags))
    assert number == 3558


@pytest.mark.parametrize("scheme", [None, *SCHEMES])
def test_against_seqeval(scheme):
    pytest.importorskip("seqeval")
    from seqeval.metrics.sequence_labeling import get_entities
    from seqeval.scheme import IOB1, IOB2, IOBES, Tokens

    strict = {"IOB1": IOB1, "IOB2": IOB2, "BIOES": IOBES}
    draw = random.Random(2)
    for _ in range(1000):
        tags = random_tags(draw, scheme or draw.choice(SCHEMES))
        if scheme is None:
            expected = [(type, start, end + 1) for type, start, end in get_entities(tags)]
        else:
            found = Tokens(tags, strict[scheme]).entities
            expected = [(one.tag, one.start, one.end) for one in found]
        assert [tuple(span) for span in find_spans(tags, scheme)] == expected, tags
