"""Precision, recall and F1 of entities, equal to conlleval (CoNLL-2003) and to seqeval.

python -m keras_bert_zoo.metrics.entities FILE [--scheme IOB1|IOB2|BIOES]

FILE has a token a line, its columns parted by tabs or else by blanks, the gold tag and the
predicted tag last, and an empty line between sentences. Without a scheme the table is conlleval's,
with one the spans are those of seqeval's strict mode. The last line printed is JSON, in fractions.
"""

import argparse
import collections
import os
import re
from collections.abc import Sequence

import numpy as np

from keras_bert_zoo.metrics.counts import AVERAGES, averaged, rates
from keras_bert_zoo.metrics.programs import read_lines, run
from keras_bert_zoo.metrics.tagging import SCHEMES, find_spans, split_tag

BOUNDARY = "-X-"  # As a line's first column, the end of a sentence, for conlleval.


def score_entities(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], scheme: str | None = None
) -> dict[str, object]:
    """Scores predicted tags: an entity is right if its type, its first and its last token are.

    Args:
        gold: the tags of each sentence.
        predicted: the predicted ones, of the same lengths.
        scheme: how tags are read; see `find_spans`. None is conlleval, and seqeval's default; a
            scheme is seqeval's strict mode.

    Returns:
        "precision", "recall" and "f1" over all entities, from 0 to 1; "macro" and "weighted", the
        same three as means over the types that are in `gold` or `predicted`; "types", by type the
        three and the numbers of entities "gold", "predicted" and "correct"; these numbers for all
        types; "tokens", "correct_tokens" and "accuracy" of the tags. What would divide by zero is
        0.0, as in conlleval and seqeval; also the macro average of no types at all, which is NaN
        in seqeval.

    Raises:
        ValueError: if the lengths differ, or on a tag that is none, or none of the scheme; the
            message names the sentence.
    """
    gold, predicted = list(gold), list(predicted)
    if len(gold) != len(predicted):
        raise ValueError(f"{len(gold)} gold sentences, but {len(predicted)} predicted ones.")
    found = {name: collections.Counter() for name in ("gold", "predicted", "correct")}
    tokens = right = 0
    for number, (gold_tags, predicted_tags) in enumerate(zip(gold, predicted, strict=True)):
        if len(gold_tags) != len(predicted_tags):
            raise ValueError(
                f"Sentence {number} has {len(gold_tags)} gold tags, but {len(predicted_tags)} "
                "predicted ones. There must be one for each token."
            )
        try:
            spans = [set(find_spans(tags, scheme)) for tags in (gold_tags, predicted_tags)]
        except ValueError as error:
            raise ValueError(f"Sentence {number}: {error}") from error
        for name, chosen in zip(found, (*spans, spans[0] & spans[1]), strict=True):
            found[name].update(span.type for span in chosen)
        tokens += len(gold_tags)
        right += sum(map(_same, gold_tags, predicted_tags))

    types = sorted(found["gold"] | found["predicted"])
    counts = {name: np.array([found[name][type] for type in types], int) for name in found}
    order = (counts["correct"], counts["predicted"], counts["gold"])
    micro, macro, weighted = (averaged(*order, average)._asdict() for average in AVERAGES)
    by_type = rates(*order)._asdict() | counts
    return {
        **micro,
        "accuracy": right / tokens if tokens else 0.0,
        "tokens": tokens,
        "correct_tokens": right,
        **{name: int(count.sum()) for name, count in counts.items()},
        "macro": macro,
        "weighted": weighted,
        "types": {
            type: {name: values[place].item() for name, values in by_type.items()}
            for place, type in enumerate(types)
        },
    }


def _same(first, second):
    return first == second or split_tag(first) == split_tag(second)


def conlleval_table(scores: dict[str, object]) -> str:
    """What conlleval prints, of the scores of `score_entities`."""
    lines = [
        f"processed {scores['tokens']} tokens with {scores['gold']} phrases; "
        f"found: {scores['predicted']} phrases; correct: {scores['correct']}."
    ]
    if scores["tokens"]:
        accuracy = 100 * scores["correct_tokens"] / scores["tokens"]
        lines.append(f"accuracy: {accuracy:6.2f}%; {_percentages(scores)}")
    for type, those in scores["types"].items():
        lines.append(f"{type:>17}: {_percentages(those)}  {those['predicted']}")
    return "\n".join(lines)


def _percentages(those):
    # In conlleval's order of operations, so that the last digit is rounded alike.
    correct, predicted, gold = (those[name] for name in ("correct", "predicted", "gold"))
    precision = 100 * correct / predicted if predicted else 0.0
    recall = 100 * correct / gold if gold else 0.0
    f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    return f"precision: {precision:6.2f}%; recall: {recall:6.2f}%; FB1: {f1:6.2f}"


def read_columns(path: str | os.PathLike) -> tuple[list[list[str]], list[list[str]]]:
    """Reads the last two columns of a CoNLL file: gold and predicted tags.

    Columns are parted by tabs in a file whose first token has one, else by blanks. Sentences end
    at lines that are empty or begin with the column -X-. As in conlleval, a line -DOCSTART- is a
    token like any other.

    Returns:
        The gold and the predicted tags, by sentence.

    Raises:
        ValueError: if a line has one column, or not as many as the first one, or a tag that is
            none; the message names the line.
        OSError: if the file cannot be read.
    """
    name, lines = os.fspath(path), read_lines(path)
    first = next((line for line in lines if line.strip(" \t")), "")
    between = "\t" if "\t" in first else " +"
    sentences: list[list[list[str]]] = [[]]
    columns = None
    for number, line in enumerate(lines, 1):
        fields = re.split(between, line.rstrip(" \t") if between == "\t" else line.strip(" "))
        if fields == [""] or fields[0] == BOUNDARY:
            sentences.append([])
            continue
        columns = columns or len(fields)
        if len(fields) != columns or columns < 2:
            raise ValueError(
                f"{name}, line {number}: there are {len(fields)} columns, where "
                + (f"the first token has {columns}" if columns > 1 else "at least 2 are needed")
                + f". The last two must be the gold and the predicted tag: {line!r:.200}"
            )
        for tag in fields[-2:]:
            try:
                split_tag(tag)
            except ValueError as error:
                raise ValueError(f"{name}, line {number}: {error}") from error
        sentences[-1].append(fields[-2:])
    sentences = [sentence for sentence in sentences if sentence]
    return tuple([[pair[which] for pair in sentence] for sentence in sentences] for which in (0, 1))


def _main() -> dict:
    parser = argparse.ArgumentParser(
        prog="python -m keras_bert_zoo.metrics.entities", description=__doc__.split("\n")[0]
    )
    parser.add_argument("file", metavar="FILE", help="CoNLL columns, gold and predicted tag last.")
    parser.add_argument("--scheme", choices=SCHEMES, help="Count only whole spans of it.")
    arguments = parser.parse_args()
    scores = score_entities(*read_columns(arguments.file), arguments.scheme)
    print(conlleval_table(scores))
    return scores


if __name__ == "__main__":
    run(_main)
