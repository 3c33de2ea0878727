"""Whether a model's texts are lower-cased: who says so, and what a contradiction costs."""

import os
import re
from collections.abc import Sequence, Set
from typing import NamedTuple

from keras_bert_zoo.text.vocabulary import CONTINUATION

_WORDS = ("The", "Quick", "Brown", "Fox")
# Share of words with capitals: 0.05% in BERT's uncased vocabularies, which have "<S>"; 23% and more
# in its cased ones, 8% in cased ones learnt from a novel.
_FEW = 0.01
# google-research/bert's folders of uncased models whose names do not say so.
_GOOGLE = re.compile(r"(chinese|multilingual)_L-\d+_H-\d+_A-\d+")


class Evidence(NamedTuple):
    """One voice on whether texts are lower-cased.

    Attributes:
        lowercase: what it says.
        who: whose voice it is, as the subject of a sentence.
        what: what it said, to stand in brackets.
        sure: whether it may contradict a setting.
    """

    lowercase: bool
    who: str
    what: str
    sure: bool = True


def casing_of_name(folder: str | os.PathLike) -> Evidence | None:
    """What the name of a model's folder says: "uncased_L-2_H-128_A-2", "bert-base-cased".

    Of a snapshot in the cache of the Hugging Face hub, the name is that of the model.
    """
    path = os.path.abspath(folder)
    parent, name = os.path.split(path)
    if os.path.basename(parent) == "snapshots":
        name = os.path.basename(os.path.dirname(parent))
    words = re.split("[^a-z0-9]+", name.lower())
    cased, uncased = "cased" in words, "uncased" in words
    if cased != uncased:
        return Evidence(uncased, "the folder's name", repr(name))
    if not cased and ("chinese" in words or "multilingual" in words):
        sure = _GOOGLE.match(name) is not None
        return Evidence(True, "the folder's name", repr(name), sure)
    return None


def casing_of_vocabulary(vocabulary: Sequence[str]) -> Evidence | None:
    """What a vocabulary says, if one can tell.

    It is uncased if it has all of "the quick brown fox" and none of "The Quick Brown Fox", cased
    if it has the latter and 1% of its words have capitals. Vocabularies that are small or of
    another script say nothing.
    """
    known = set(vocabulary)
    capitalised = [_can_be_cut(word, known) for word in _WORDS]
    if all(capitalised):
        some, all_words = _count_capitals(vocabulary)
        if some > _FEW * all_words:
            what = f"{some:,} of its {len(vocabulary):,} tokens have capitals"
            return Evidence(False, "the vocabulary", what)
    if not any(capitalised) and all(_can_be_cut(word.lower(), known) for word in _WORDS):
        what = f"it has the words of {' '.join(_WORDS).lower()!r}, but not {' '.join(_WORDS)!r}"
        return Evidence(True, "the vocabulary", what)
    return None


def decide_lowercase(
    asked: bool | None,
    files: Sequence[Evidence],
    name: Evidence | None,
    vocabulary: Sequence[str],
) -> tuple[bool, str, str | None]:
    """Settles whether texts are lower-cased: by the caller, the files, the name, the vocabulary.

    Args:
        asked: what the caller wants, if anything.
        files: what the tokenizer's files say, most important first.
        name: what the folder's name says.
        vocabulary: the tokens.

    Returns:
        The answer, who gave it, and a warning if it is contradicted.
    """
    caller = () if asked is None else (Evidence(asked, "the caller", f"lowercase={asked}"),)
    tokens = casing_of_vocabulary(vocabulary)
    voices = [voice for voice in (*caller, *files, name, tokens) if voice is not None]
    if not voices:
        some, all_words = _count_capitals(vocabulary)
        return some <= _FEW * all_words, "the vocabulary", None
    answer = voices[0].lowercase
    against = [voice for voice in voices if voice.lowercase != answer and voice.sure]
    if not against:
        return answer, voices[0].who, None
    others = [f"{voice.who} ({voice.what})" for voice in against]
    others = " and ".join(filter(None, [", ".join(others[:-1]), others[-1]]))
    cost = (
        "tokens with capitals are never found then, and what the model learnt for them is lost"
        if answer
        else "words with capitals become unknown to an uncased model, which cost BERT 6 points of "
        "F1 on SQuAD"
    )
    warning = (
        f"Texts are {'' if answer else 'not '}lower-cased, as {voices[0].who} says "
        f"({voices[0].what}), but {others} {'says' if len(against) == 1 else 'say'} otherwise: "
        f"{cost}. Pass lowercase={not answer} if it is wrong."
    )
    return answer, voices[0].who, warning


def _count_capitals(vocabulary: Sequence[str]) -> tuple[int, int]:
    """How many tokens have capitals, and how many have letters that could be; no `[UNK]`s."""
    words = [token for token in vocabulary if not (token[:1] == "[" and token[-1:] == "]")]
    some = sum(word != word.lower() for word in words)
    return some, sum(word.lower() != word.upper() for word in words)


def _can_be_cut(word: str, tokens: Set[str]) -> bool:
    """Whether greedy longest match from the left cuts a word into tokens."""
    start = 0
    while start < len(word):
        prefix = CONTINUATION if start else ""
        for end in range(len(word), start, -1):
            if prefix + word[start:end] in tokens:
                break
        else:
            return False
        start = end
    return True
