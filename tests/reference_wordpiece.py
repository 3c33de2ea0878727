"""BERT's tokenization in plain Python, one character at a time: what the in-graph one must equal.

Written from the rules of google-research/bert (Devlin et al. 2019) and the running Python's
`unicodedata`, to be read rather than to be fast.
"""

import functools
import itertools
import unicodedata
from typing import NamedTuple

IDEOGRAPHS = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)

# Every assigned code point, and some of those that are private or assigned to nothing.
CODE_POINTS = [
    code_point
    for code_point in range(0x110000)
    if unicodedata.category(chr(code_point)) not in ("Cn", "Co", "Cs")
    or (code_point % 211 == 0 and not 0xD800 <= code_point <= 0xDFFF)
    or code_point & 0xFFFE == 0xFFFE
]
CONTEXTS = ["{}", "a{}b", "x {}. {}"]

# Every setting of the three switches, and those that google-research/bert does not have.
SWITCHES = [
    dict(zip(("lowercase", "strip_accents", "split_ideographs"), values, strict=True))
    for values in itertools.product([True, False], repeat=3)
]
OTHER_SWITCHES = [x for x in SWITCHES if list(x.values()) not in ([True] * 3, [False, False, True])]


def switch_id(switches):
    return "-".join(name for name, is_on in switches.items() if is_on) or "none"


class Token(NamedTuple):
    text: str
    start: int  # Characters of the original string.
    end: int


@functools.cache
def is_white(character):
    return character in "\t\n\r\u2028\u2029" or unicodedata.category(character) == "Zs"


@functools.cache
def is_deleted(character):
    if is_white(character):
        return False
    return character in "\0\ufffd" or unicodedata.category(character) in ("Cc", "Cf")


@functools.cache
def is_ideograph(character):
    return any(first <= ord(character) <= last for first, last in IDEOGRAPHS)


@functools.cache
def is_punctuation(character):
    number = ord(character)
    if 33 <= number <= 47 or 58 <= number <= 64 or 91 <= number <= 96 or 123 <= number <= 126:
        return True
    return unicodedata.category(character)[0] == "P"


@functools.cache
def normalise(word, lowercase, strip_accents=None):
    """A white-space word as the vocabulary writes it."""
    if lowercase:
        word = word.lower()
    if lowercase if strip_accents is None else strip_accents:
        decomposed = unicodedata.normalize("NFD", word)
        word = "".join(c for c in decomposed if unicodedata.category(c) != "Mn")
    return word


def white_space_words(text, split_ideographs=True):
    """Lists of (character, place), without deleted characters, ideographs by themselves."""
    words = [[]]
    for place, character in enumerate(text):
        if is_white(character):
            words.append([])
        elif split_ideographs and is_ideograph(character):
            words += [[(character, place)], []]
        elif not is_deleted(character):
            words[-1].append((character, place))
    return [word for word in words if word]


def normal_words(text, lowercase, strip_accents=None, split_ideographs=True):
    """Lists of (normalised character, place of the character it comes from)."""
    words = []
    switches = lowercase, strip_accents
    for word in white_space_words(text, split_ideographs):
        normal = normalise("".join(character for character, _ in word), *switches)
        places = [place for c, place in word for _ in normalise(c, *switches)]
        assert len(normal) == len(places)
        current = []
        for character, place in zip(normal, places, strict=True):
            if is_punctuation(character):
                words += [current, [(character, place)]]
                current = []
            else:
                current.append((character, place))
        words.append(current)
    return [word for word in words if word]


def letters(characters, lowercase, strip_accents=None):
    """What normalising leaves of characters: as tokens, they leave no difference hidden."""
    normal = {c for character in characters for c in normalise(character, lowercase, strip_accents)}
    return sorted((normal | {"ς"}) - {"\n", "\r"})


@functools.cache
def _cut(word, has, limit):
    """Greedy longest match from the left: (piece, from, to), or None if the word is unknown."""
    if len(word) > limit:
        return None
    pieces, start = [], 0
    while start < len(word):
        prefix = "##" if start else ""
        for end in range(len(word), start, -1):
            if has(prefix + word[start:end]):
                break
        else:
            return None
        pieces.append((prefix + word[start:end], start, end))
        start = end
    return pieces


class ReferenceTokenizer:
    def __init__(
        self,
        vocabulary,
        lowercase=True,
        limit=100,
        unknown="[UNK]",
        strip_accents=None,
        split_ideographs=True,
    ):
        self.ids = {token: number for number, token in enumerate(vocabulary)}
        self.lowercase, self.limit, self.unknown = lowercase, limit, unknown
        self._switches = lowercase, strip_accents, split_ideographs
        self._has = self.ids.__contains__

    def tokens(self, text):
        """The tokens of a text with their spans."""
        tokens = []
        for word in normal_words(text, *self._switches):
            pieces = _cut("".join(character for character, _ in word), self._has, self.limit)
            for piece, start, end in pieces or [(self.unknown, 0, len(word))]:
                last = word[end - 1][1] + 1
                while last < len(text) and self._is_dropped_mark(text[last]):
                    last += 1
                tokens.append(Token(piece, word[start][1], last))
        return tokens

    def __call__(self, text):
        """The token ids of a text."""
        ids = []
        for word in normal_words(text, *self._switches):
            pieces = _cut("".join(character for character, _ in word), self._has, self.limit)
            ids += [self.ids[piece] for piece, *_ in pieces or [(self.unknown,)]]
        return ids

    def _is_dropped_mark(self, character):
        if is_deleted(character) or is_white(character):
            return False
        return not normalise(character, *self._switches[:2])
