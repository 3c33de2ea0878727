"""The three evaluations of SemEval-2010 task 8, as counts and as rates."""

import collections
import dataclasses
from collections.abc import Mapping

from keras_bert_zoo.metrics.relation_answers import OTHER, check_labels, without_direction

TITLES = (
    "(2*9+1)-WAY EVALUATION (USING DIRECTIONALITY)>>>:",
    "(9+1)-WAY EVALUATION IGNORING DIRECTIONALITY >>>:",
    "(9+1)-WAY EVALUATION TAKING DIRECTIONALITY INTO ACCOUNT -- OFFICIAL >>>:",
)


@dataclasses.dataclass(frozen=True)
class RelationTable:
    """One of the three evaluations, as counts.

    Attributes:
        title: as the official scorer writes it.
        labels: what is in the key, sorted, Other last.
        foreign: what was proposed and is not in the key, sorted.
        counts: pairs of the label in the key and the proposed one, without wrong directions.
        wrong_direction: by label of the key, how often the direction alone was wrong; None where
            directions do not count, or are labels of their own.
        answers: by label, its number in the key.
        proposed: the number of sentences with a proposal.
    """

    title: str
    labels: tuple[str, ...]
    foreign: tuple[str, ...]
    counts: Mapping[tuple[str, str], int]
    wrong_direction: Mapping[str, int] | None
    answers: Mapping[str, int]
    proposed: int

    @property
    def total(self) -> int:
        """The number of sentences in the key."""
        return sum(self.answers.values())

    @property
    def correct(self) -> int:
        """The number of sentences that are right."""
        return sum(self.counts[label, label] for label in self.labels)

    def row(self, label: str) -> int:
        """How often a label of the key was given a proposal, without wrong directions."""
        return sum(self.counts[label, other] for other in (*self.labels, *self.foreign))

    def column(self, label: str) -> int:
        """How often a label was proposed, without wrong directions."""
        return sum(self.counts[other, label] for other in self.labels)

    def turned(self, label: str) -> int:
        """How often the direction alone was wrong."""
        return self.wrong_direction[label] if self.wrong_direction is not None else 0

    def skipped(self, label: str) -> int:
        """How many sentences of a label have no proposal."""
        return self.answers[label] - self.row(label) - self.turned(label)

    def rates(self, label: str) -> tuple[float, float, float]:
        """Precision, recall and F1 of a label in percent; 0 where nothing was proposed."""
        proposed = self.column(label) + self.turned(label)
        return _rates(self.counts[label, label], proposed, self.answers[label])

    def micro_counts(self) -> tuple[int, int, int]:
        """The right, the proposed and the existing ones of all relations but Other."""
        labels = self.relations()
        return (
            sum(self.counts[label, label] for label in labels),
            sum(self.column(label) + self.turned(label) for label in labels),
            sum(self.answers[label] for label in labels),
        )

    def micro(self) -> tuple[float, float, float]:
        """Precision, recall and F1 over all relations but Other, in percent."""
        return _rates(*self.micro_counts())

    def macro(self) -> tuple[float, float, float]:
        """The means of precision, recall and F1 of the relations of the key but Other."""
        labels = self.relations()
        # Summed up one by one, as the official scorer does.
        totals = (0.0, 0.0, 0.0)
        for label in labels:
            totals = [a + b for a, b in zip(totals, self.rates(label), strict=True)]
        return tuple(total / len(labels) for total in totals)

    def relations(self) -> list[str]:
        """The labels of the key but Other."""
        return [label for label in self.labels if label != OTHER]

    def scores(self) -> dict[str, object]:
        """All figures of the table that are rates, in percent."""
        skipped = self.skipped(OTHER) if OTHER in self.labels else 0
        return {
            "coverage": 100 * self.proposed / self.total,
            "accuracy": 100 * self.correct / self.proposed,
            "accuracy_skipped_wrong": 100 * self.correct / self.total,
            "accuracy_skipped_other": 100 * (self.correct + skipped) / self.total,
            "micro": _named(self.micro()),
            "macro": _named(self.macro()),
            "relations": {label: _named(self.rates(label)) for label in self.labels},
        }


def _named(rates):
    return dict(zip(("precision", "recall", "f1"), rates, strict=True))


def _rates(correct, proposed, existing):
    precision = 100.0 * correct / proposed if proposed else 0.0
    recall = 100.0 * correct / existing if existing else 0.0
    f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    return precision, recall, f1


def relation_tables(
    proposed: Mapping[int, str], key: Mapping[int, str]
) -> tuple[RelationTable, RelationTable, RelationTable]:
    """The three evaluations: with directions as labels of their own, without, and the official one.

    Args:
        proposed: proposed labels by the number of their sentence. What is left out is skipped, and
            counts as Other in the averages.
        key: the right labels of all sentences.

    Raises:
        ValueError: on a label that is none, a proposal for a sentence that the key does not have,
            no proposals at all, and a key in which all is Other. (The official scorer divides by
            zero in the last two cases.)
    """
    check_labels(proposed, "proposed")
    check_labels(key, "key")
    if extra := [number for number in proposed if number not in key]:
        raise ValueError(
            f"{len(extra)} proposed answers are for sentences that the key does not have, such as "
            f"sentence {extra[0]}. Take them out, or use the key that belongs to them."
        )
    if not proposed or set(key.values()) == {OTHER}:
        raise ValueError(
            "There is nothing to score: " + ("the key is all Other." if proposed else "no answers.")
        )
    pairs = [(key[number], label) for number, label in proposed.items()]
    plain = [tuple(map(without_direction, pair)) for pair in pairs]
    both = list(zip(pairs, plain, strict=True))
    turned = [one for pair, one in both if one[0] == one[1] and pair[0] != pair[1]]
    straight = [one for pair, one in both if one[0] != one[1] or pair[0] == pair[1]]
    wrong_direction = collections.Counter(relation for relation, _ in turned)
    answers = collections.Counter(key.values())
    plain_answers = collections.Counter(map(without_direction, key.values()))
    return (
        _table(TITLES[0], pairs, None, answers, len(pairs)),
        _table(TITLES[1], plain, None, plain_answers, len(pairs)),
        _table(TITLES[2], straight, wrong_direction, plain_answers, len(pairs)),
    )


def _table(title, pairs, wrong_direction, answers, proposed):
    def in_order(labels):
        return tuple(sorted(labels, key=lambda label: (label == OTHER, label)))

    foreign = {label for _, label in pairs} - set(answers)
    counts = collections.Counter(pairs)
    labels = in_order(answers)
    return RelationTable(
        title, labels, in_order(foreign), counts, wrong_direction, answers, proposed
    )
