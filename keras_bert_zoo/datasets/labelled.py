"""Labelled documents and their honest use: no duplicates, held out by file, classes capped."""

import dataclasses
import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

_WORD = re.compile(r"\w+")


@dataclasses.dataclass(frozen=True)
class LabelledDocument:
    """A document: the file it comes from, its label, and its sentences or lines."""

    source: str
    label: str
    lines: tuple[str, ...]

    @property
    def text(self) -> str:
        return " ".join(self.lines)

    @property
    def words(self) -> list[str]:
        """Lower-case words, for comparison: two texts that differ in layout only are the same."""
        return _WORD.findall(self.text.lower())


def stable_hash(*parts: object) -> int:
    """A number in [0, 2**64) that is the same in every process and on every machine."""
    text = "\0".join(map(str, parts)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")


def drop_duplicates(documents: Iterable[LabelledDocument]) -> list[LabelledDocument]:
    """Keeps the first of equal texts, and none of a text that stands under two labels."""
    groups: dict[tuple[str, ...], list[LabelledDocument]] = {}
    for document in documents:
        groups.setdefault(tuple(document.words), []).append(document)
    return [g[0] for g in groups.values() if len({d.label for d in g}) == 1]


def hold_out(
    documents: Sequence[LabelledDocument], share: float = 0.2
) -> tuple[list[LabelledDocument], list[LabelledDocument]]:
    """Splits documents by their source: no source gives documents to both sides.

    Of each label, ``share`` of the sources (at least one of two or more) are held out, those whose
    path hashes lowest, so a file keeps its side when others come and go.

    Returns:
        The training documents and the held-out ones, each in their old order.
    """
    sources = defaultdict(set)
    for document in documents:
        sources[document.label].add(document.source)
    held = set()
    for label, paths in sources.items():
        count = min(len(paths) - 1, max(1, round(share * len(paths))))
        ranked = sorted(paths, key=lambda path: (stable_hash(path), path))
        held.update((label, path) for path in ranked[:count])
    train = [d for d in documents if (d.label, d.source) not in held]
    return train, [d for d in documents if (d.label, d.source) in held]


def drop_near_duplicates(
    documents: Iterable[LabelledDocument],
    seen: Iterable[LabelledDocument],
    size: int = 5,
    share: float = 0.5,
) -> list[LabelledDocument]:
    """Drops the documents of whose runs of ``size`` words ``share`` or more stand in ``seen``."""
    known = {run for document in seen for run in _runs(document.words, size)}
    kept = []
    for document in documents:
        runs = _runs(document.words, size)
        if sum(run in known for run in runs) < share * len(runs):
            kept.append(document)
    return kept


def _runs(words: Sequence[str], size: int) -> set[int]:
    if len(words) <= size:
        return {hash(tuple(words))}
    return {hash(tuple(words[i : i + size])) for i in range(len(words) - size + 1)}


def choose_labels(
    train: Sequence[LabelledDocument],
    held_out: Sequence[LabelledDocument],
    minimum_train: int,
    minimum_held_out: int,
    maximum: int | None = None,
) -> list[str]:
    """Labels with documents enough on both sides, sorted; of too many those with most held out."""
    in_train = Counter(d.label for d in train)
    in_held_out = Counter(d.label for d in held_out)
    labels = [
        label
        for label in in_held_out
        if in_train[label] >= minimum_train and in_held_out[label] >= minimum_held_out
    ]
    labels.sort(key=lambda label: (-in_held_out[label], label))
    return sorted(labels[:maximum])


def cap_classes(documents: Sequence[LabelledDocument], share: float) -> list[LabelledDocument]:
    """Takes documents off the largest labels until none has more than ``share`` of what is left.

    With fewer than ``1 / share`` labels that cannot be: then all labels become equally large.
    Which documents stay is decided by a stable hash, their order is kept.
    """
    counts = Counter(d.label for d in documents)
    cap = max(counts.values(), default=0)
    smallest = min(counts.values(), default=0)
    while cap > smallest and cap > share * sum(min(n, cap) for n in counts.values()):
        cap -= 1
    groups = defaultdict(list)
    for index, document in enumerate(documents):
        groups[document.label].append((stable_hash(document.source, document.text), index))
    kept = {index for group in groups.values() for _, index in sorted(group)[:cap]}
    return [d for index, d in enumerate(documents) if index in kept]


def draw_examples(
    documents: Sequence[LabelledDocument], labels: Sequence[str], per_label: int, seed: int
) -> list[LabelledDocument]:
    """Draws ``per_label`` documents of each label; another ``seed`` draws others.

    Raises:
        ValueError: a label has fewer documents.
    """
    drawn = []
    for label in labels:
        group = [d for d in documents if d.label == label]
        if len(group) < per_label:
            raise ValueError(
                f"Cannot draw {per_label} documents labelled {label!r}: there are {len(group)}. "
                "Ask for fewer, or leave the label out."
            )
        group.sort(key=lambda d: (stable_hash(seed, d.source, d.text), d.source))
        drawn.extend(group[:per_label])
    return drawn
