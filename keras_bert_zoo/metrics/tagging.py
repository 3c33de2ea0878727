"""Tags of tokens and the spans they stand for, in IOB1, IOB2 and BIOES.

A tag is O, or a letter and a type, such as B-PER. IOB2 begins every span with B. IOB1 has B only
where a span follows directly on one of its own type, and I elsewhere. BIOES writes the last token
of a span as E and a span of one token as S.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

SCHEMES = ("IOB1", "IOB2", "BIOES")
OUTSIDE = "O"
UNNAMED = "_"  # The type of a bare B, I, E or S.
_LETTERS = {"IOB1": "BI", "IOB2": "BI", "BIOES": "BIES"}
_OUT = (OUTSIDE, "")


class Span(NamedTuple):
    """A typed span of tokens: `start` is its first token, `end` the one behind its last."""

    type: str
    start: int
    end: int


def split_tag(tag: str) -> tuple[str, str]:
    """The letter and the type of a tag: "B-PER" is ("B", "PER"), "O" is ("O", "").

    The type is what follows the first hyphen; that of a bare "B" is "_".

    Raises:
        ValueError: if the tag is neither "O" nor begins with B, I, E or S.
    """
    if tag == OUTSIDE:
        return _OUT
    letter, hyphen, type = tag.partition("-") if isinstance(tag, str) else ("", "", "")
    if letter not in ("B", "I", "E", "S") or "".join((letter, hyphen, type)) != tag:
        raise ValueError(
            "A tag is 'O', or one of B, I, E and S, a hyphen and a type, such as 'B-PER'. "
            f"Received: {tag!r}"
        )
    return letter, type or UNNAMED


def find_spans(tags: Iterable[str], scheme: str | None = None) -> list[Span]:
    """Reads the spans of a sentence's tags.

    Without a scheme any tags have spans, by the rules of conlleval, the scorer of CoNLL-2003: a
    span goes on as long as the type stays and there is no B; an I without a span before it begins
    one. That is IOB1 as well as IOB2, and what seqeval does by default. E and S are read as seqeval
    reads them: an E ends its span, an S is a span. (conlleval does not know S.)

    With a scheme, only what is a whole span in it counts, as in seqeval's strict mode: in IOB2 an I
    without its B is outside, and in BIOES a span without its end. In IOB1, as there, a B counts
    only directly behind its own type, and a span that ends in a B is lost if a B of another type
    follows.

    Args:
        tags: the tags of one sentence.
        scheme: one of `SCHEMES`, or None for the lenient rules.

    Raises:
        ValueError: on another scheme, or a tag that is none, or none of the scheme.
    """
    _check_scheme(scheme, None)
    parts = [split_tag(tag) for tag in tags]
    if scheme is not None:
        for letter, type in parts:
            if letter not in OUTSIDE + _LETTERS[scheme]:
                raise ValueError(
                    f"{scheme} has the letters {', '.join(_LETTERS[scheme])} and O. Received the "
                    f"tag {letter + '-' + type!r}; use another scheme, or None for any tags."
                )
    spans, start, previous = [], None, _OUT
    for place, current in enumerate([*parts, _OUT]):
        if start is not None and not _continues(previous, current, scheme):
            if _is_whole(previous, current, scheme):
                spans.append(Span(previous[1], start, place))
            start = None
        if start is None and _starts(previous, current, scheme):
            start = place
        previous = current
    return spans


def _continues(previous, current, scheme):
    """Whether a span that `previous` belongs to goes on with `current`."""
    if previous[1] != current[1] or previous[0] not in "BI":
        return False
    return current[0] == "I" if scheme in ("IOB1", "IOB2") else current[0] in "IE"


def _starts(previous, current, scheme):
    """Whether `current` begins a span, if it belongs to none yet."""
    if scheme is None:
        return current[0] != OUTSIDE
    if scheme == "IOB1":
        return current[0] == "I" or (current[0] == "B" and previous[1] == current[1])
    return current[0] in ("B" if scheme == "IOB2" else "BS")


def _is_whole(previous, current, scheme):
    """Whether a span that ends between the two counts."""
    if scheme == "BIOES":
        return previous[0] in "ES"
    if scheme == "IOB1":
        return not (previous[0] == current[0] == "B" and previous[1] != current[1])
    return True


def write_tags(spans: Iterable[Span], length: int, scheme: str = "IOB2") -> list[str]:
    """Writes spans as the tags of a sentence of `length` tokens.

    Raises:
        ValueError: on another scheme, and if spans are empty, overlap or leave the sentence.
    """
    _check_scheme(scheme)
    tags, last = [OUTSIDE] * length, Span("", 0, 0)
    for span in sorted(spans, key=lambda span: span[1]):
        type, start, end = span
        if not last.end <= start < end <= length:
            raise ValueError(
                f"Spans must have tokens, lie within the sentence of {length} and not overlap. "
                f"Received {tuple(span)}" + (f" behind {tuple(last)}" if last.type else "")
            )
        letters = ["I"] * (end - start)
        if scheme != "IOB1" or (last.end == start and last.type == type):
            letters[0] = "B"
        if scheme == "BIOES":
            letters[-1] = "E" if len(letters) > 1 else "S"
        tags[start:end] = [f"{letter}-{type}" for letter in letters]
        last = Span(*span)
    return tags


def convert_tags(tags: Sequence[str], target: str, source: str | None = None) -> list[str]:
    """Writes a sentence's tags in another scheme.

    Args:
        tags: the tags of one sentence.
        target: one of `SCHEMES`.
        source: the scheme that the tags must be in, letter by letter; None reads any tags by the
            lenient rules of `find_spans`.

    Raises:
        ValueError: on another scheme, a tag that is none, and tags that are not of `source`.
    """
    tags = list(tags)
    spans = find_spans(tags, source)
    if source is not None:
        # A scheme writes spans in one way only, so what comes back changed was not of the scheme.
        written = write_tags(spans, len(tags), source)
        for place, (tag, right) in enumerate(zip(tags, written, strict=True)):
            if split_tag(tag) != split_tag(right):
                raise ValueError(
                    f"These are no {source} tags, from place {place} on: {tag!r} is out of place. "
                    "Use source=None to read them leniently. "
                    f"Received: {' '.join(tags)!r:.200}"
                )
    return write_tags(spans, len(tags), target)


def _check_scheme(scheme, *more):
    if scheme not in (*SCHEMES, *more):
        raise ValueError(f"scheme must be one of {(*SCHEMES, *more)}, received {scheme!r}.")
