"""BERT's text rules as a table over all Unicode code points.

Cleaning, lower-casing, accent stripping and splitting (google-research/bert, tokenization.py) look
at one code point at a time but for two rules, which the table feeds: the final sigma where it
lower-cases, and the canonical order of combining characters where it strips accents. The table is
made with the running Python's `unicodedata` and travels with a saved tokenizer, so that a model
never changes with the Python that runs it.
"""

import dataclasses
import functools
import os
import unicodedata

import numpy as np

# Code points at and past this one stand for special tokens written out in the text.
SPECIAL_BASE = 0x110000
BLOCK_BITS = 7

# Bits of `flags`. The low three bits hold the number of normalised code points.
COUNT_MASK = 7
APART = 8  # White space, or an ideograph or special token that is a word by itself.
MARK = 16  # A combining mark that normalising drops.
CASED = 32  # For the final sigma: a letter that has case.
IGNORABLE = 64  # For the final sigma: looked through, as are deleted characters.
REORDERS = 128  # Normalised to something with a canonical combining class.
HIDDEN_STARTER = 256  # Dropped, yet ends a run of combining characters.

_SIGMA, _FINAL_SIGMA = "\u03a3", "\u03c2"
_IDEOGRAPHS = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)
_WHITE_SPACE = frozenset("\t\n\r\u2028\u2029")
_DELETED = frozenset("\0\ufffd")


@dataclasses.dataclass(frozen=True)
class UnicodeTable:
    """Two-stage table: `stage2[stage1[c >> 7] + (c & 127)]` is the entry of code point `c`.

    Attributes:
        unicode_version: the version of the Unicode data it was made from.
        lowercase: whether it lower-cases.
        strip_accents: whether it decomposes (NFD) and drops combining marks.
        split_ideographs: whether an ideograph is a word by itself.
        stage1: int32 (blocks,), where a block's entries begin in `stage2`.
        stage2: int32, entry numbers.
        flags: int32 (entries,), the bits named above.
        starts: int32 (entries,), where an entry's expansion begins in `expansions`.
        expansions: int32, `2 * (normalised code point - code point) + is punctuation`.
        combining: int32 (k, 2), (normalised code point, canonical combining class) of the code
            points that have one and are kept.
    """

    unicode_version: str
    lowercase: bool
    strip_accents: bool
    split_ideographs: bool
    stage1: np.ndarray
    stage2: np.ndarray
    flags: np.ndarray
    starts: np.ndarray
    expansions: np.ndarray
    combining: np.ndarray

    def save(self, path: str | os.PathLike) -> None:
        """Writes the table as a compressed `.npz` file."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        with open(path, "wb") as file:
            np.savez_compressed(file, **fields)

    @classmethod
    def load(cls, path: str | os.PathLike) -> "UnicodeTable":
        """Reads a table that `save` wrote."""
        with np.load(path, allow_pickle=False) as fields:
            # At first there was one switch for both, and none for ideographs.
            older = {"strip_accents": fields["lowercase"], "split_ideographs": True}
            names = [field.name for field in dataclasses.fields(cls)]
            values = {name: fields[name] if name in fields else older[name] for name in names}
        values["unicode_version"] = str(values["unicode_version"])
        for name in ("lowercase", "strip_accents", "split_ideographs"):
            values[name] = bool(values[name])
        return cls(**values)


def build_unicode_table(
    lowercase: bool, strip_accents: bool | None = None, split_ideographs: bool = True
) -> UnicodeTable:
    """Computes the table from the running Python's `unicodedata`, in well under a second.

    Args:
        lowercase: whether to lower-case, as `str.lower` does.
        strip_accents: whether to decompose (NFD) and drop combining marks (category Mn); `None`
            means as `lowercase`, which is google-research/bert.
        split_ideographs: whether each CJK ideograph is a word by itself.
    """
    strip_accents = lowercase if strip_accents is None else strip_accents
    return _build(bool(lowercase), bool(strip_accents), bool(split_ideographs))


@functools.lru_cache(maxsize=4)
def _build(lowercase: bool, strip_accents: bool, split_ideographs: bool) -> UnicodeTable:
    entry_of = {(0, (0,)): 0}  # (flags, expansion) -> number; entry 0 keeps a character as it is.
    entries = np.zeros(SPECIAL_BASE + (1 << BLOCK_BITS), np.int32)
    apart = entry_of.setdefault((APART, (0,)), len(entry_of))
    entries[SPECIAL_BASE:] = apart
    for first, last in _IDEOGRAPHS if split_ideographs else ():
        entries[first : last + 1] = apart
    entries[0x0A] = entry_of.setdefault((APART, ()), len(entry_of))

    # Unassigned and private characters have no property that any rule reads.
    characters = [
        character
        for character in map(chr, range(SPECIAL_BASE))
        if unicodedata.category(character) not in ("Cn", "Co", "Cs") and character != "\n"
    ]
    # One call over all characters, kept apart by line feeds, is ten times faster than many.
    normal_forms, combining = "\n".join(characters), {}
    cased = ignorable = frozenset()
    if lowercase:
        normal_forms = normal_forms.lower()
        cased, ignorable = _sigma_contexts(characters)
    if strip_accents:
        normal_forms = unicodedata.normalize("NFD", normal_forms)
    for character, normal in zip(characters, normal_forms.split("\n"), strict=True):
        flags, kept = _rule(character, normal, strip_accents)
        if split_ideographs and _is_ideograph(character):
            flags |= APART
        flags |= CASED * (character in cased) | IGNORABLE * (character in ignorable)
        expansion = tuple(2 * (ord(c) - ord(character)) + _is_punctuation(c) for c in kept)
        entries[ord(character)] = entry_of.setdefault((flags, expansion), len(entry_of))
        if flags & REORDERS:
            combining |= {ord(c): unicodedata.combining(c) for c in kept}

    blocks, block_of = np.unique(entries.reshape(-1, 1 << BLOCK_BITS), axis=0, return_inverse=True)
    counts = np.array([len(expansion) for _, expansion in entry_of])
    return UnicodeTable(
        unicode_version=unicodedata.unidata_version,
        lowercase=lowercase,
        strip_accents=strip_accents,
        split_ideographs=split_ideographs,
        stage1=(block_of.reshape(-1) << BLOCK_BITS).astype(np.int32),
        stage2=blocks.reshape(-1).astype(np.int32),
        flags=(np.array([flags for flags, _ in entry_of]) | counts).astype(np.int32),
        starts=(np.cumsum(counts) - counts).astype(np.int32),
        expansions=np.array([x for _, expansion in entry_of for x in expansion], np.int32),
        combining=np.array(sorted(x for x in combining.items() if x[1]), np.int32).reshape(-1, 2),
    )


def _rule(character: str, normal: str, strip_accents: bool) -> tuple[int, str]:
    """Flags of one character, but for case and ideographs, and what is left of it."""
    category = unicodedata.category(character)
    if character in _WHITE_SPACE or category == "Zs":
        return APART, ""
    if character in _DELETED or category in ("Cc", "Cf"):
        return IGNORABLE, ""
    if not strip_accents:
        return 0, normal
    flags = 0
    kept = "".join(c for c in normal if unicodedata.category(c) != "Mn")
    dropped = [c for c in normal if unicodedata.category(c) == "Mn"]
    if not kept:
        flags |= MARK
    if any(not unicodedata.combining(c) for c in dropped):
        flags |= HIDDEN_STARTER
    if any(map(unicodedata.combining, kept)):
        flags |= REORDERS
    return flags, kept


def _sigma_contexts(characters: list[str]) -> tuple[frozenset, frozenset]:
    """The characters that are cased, and those that are looked through, as `str.lower` sees them.

    Python keeps both properties to itself, but shows them in what becomes of a sigma at the end.
    """
    after = "\n".join(c + _SIGMA for c in characters).lower().split("\n")
    cased = frozenset(c for c, x in zip(characters, after, strict=True) if x[-1] == _FINAL_SIGMA)
    between = "\n".join("A" + c + _SIGMA for c in characters).lower().split("\n")
    through = frozenset(
        c for c, x in zip(characters, between, strict=True) if x[-1] == _FINAL_SIGMA
    )
    return cased, through - cased


def _is_ideograph(character: str) -> bool:
    return any(first <= ord(character) <= last for first, last in _IDEOGRAPHS)


def _is_punctuation(character: str) -> bool:
    if character < "\x7f":
        return character > " " and not character.isalnum()
    return unicodedata.category(character).startswith("P")
