"""Two entities of a text, marked by tags in it: `The <e1>kitchen</e1> of the <e2>house</e2>.`"""

import re
from typing import NamedTuple

_TAG = re.compile(r"</?e[12]>")
_ORDERS = (
    ["<e1>", "</e1>", "<e2>", "</e2>"],
    ["<e2>", "</e2>", "<e1>", "</e1>"],
)


class TaggedText(NamedTuple):
    """A text without tags, and where its entities stand: `text[start:end]`, in characters."""

    text: str
    entity_1: tuple[int, int]
    entity_2: tuple[int, int]


def read_tags(tagged: str) -> TaggedText:
    """Takes the tags of two entities out of a text.

    Args:
        tagged: a text with `<e1>`, `</e1>`, `<e2>` and `</e2>` in it, each once; either entity may
            come first.

    Raises:
        ValueError: if a tag is missing or there twice, the entities are not one behind the other,
            or one is empty.
    """
    found = _TAG.findall(tagged)
    if found not in _ORDERS:
        raise ValueError(
            "two entities, one behind the other, are marked by <e1>...</e1> and <e2>...</e2>, each "
            f"once. The tags here are {' '.join(found) or 'none'}: {tagged!r:.200}"
        )
    places, removed = {}, 0
    for match in _TAG.finditer(tagged):
        places[match[0]] = match.start() - removed
        removed += len(match[0])
    text = _TAG.sub("", tagged)
    entities = [(places[f"<e{n}>"], places[f"</e{n}>"]) for n in (1, 2)]
    check_entities(text, *entities)
    return TaggedText(text, *entities)


def check_entities(text: str, entity_1: tuple[int, int], entity_2: tuple[int, int]) -> None:
    """Raises ValueError if two spans of characters are not two entities of a text."""
    for name, (start, end) in (("entity 1", entity_1), ("entity 2", entity_2)):
        if not 0 <= start < end <= len(text):
            raise ValueError(
                f"{name} must be characters of the text, which has {len(text)}, from a start to an "
                f"end past its last. Received: {start} to {end} of {text!r:.200}"
            )
        if not text[start:end].strip():
            raise ValueError(f"{name} is blank: characters {start} to {end} of {text!r:.200}")
    if max(entity_1[0], entity_2[0]) < min(entity_1[1], entity_2[1]):
        raise ValueError(
            f"the entities overlap: {tuple(entity_1)} and {tuple(entity_2)} in {text!r:.200}"
        )
