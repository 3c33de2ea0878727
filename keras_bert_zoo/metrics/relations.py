"""The scores of SemEval-2010 task 8, equal to its official scorer (version 1.2).

python -m keras_bert_zoo.metrics.relations PROPOSED [KEY]

Both files have a number, a tab and a label a line. The report is the official one. The last line
printed is JSON, in percent; its "macro_f1" is the official score: the mean F1 of the nine
relations, where a relation in the wrong direction is wrong, and Other is left out. Without KEY the
format of PROPOSED is checked.
"""

import argparse
from collections.abc import Mapping

from keras_bert_zoo.metrics.programs import run
from keras_bert_zoo.metrics.relation_answers import (
    LABELS,
    check_answers,
    read_answers,
    write_answers,
)
from keras_bert_zoo.metrics.relation_report import relation_report
from keras_bert_zoo.metrics.relation_tables import RelationTable, relation_tables

__all__ = [
    "LABELS",
    "RelationTable",
    "check_answers",
    "read_answers",
    "relation_report",
    "relation_tables",
    "score_relations",
    "write_answers",
]


def score_relations(proposed: Mapping[int, str], key: Mapping[int, str]) -> dict[str, object]:
    """The official scores, in percent.

    Takes and raises what `relation_tables` does.

    Returns:
        "macro_f1", the official score; and for each of the evaluations, "official",
        "without_direction" and "with_direction_labels" (2 * 9 + 1 classes): "coverage", three
        accuracies (of what was proposed, and with skipped sentences wrong or Other), "micro" and
        "macro" averages without Other, and "relations", each with precision, recall and F1.
    """
    fine, plain, official = (table.scores() for table in relation_tables(proposed, key))
    return {
        "macro_f1": official["macro"]["f1"],
        "official": official,
        "without_direction": plain,
        "with_direction_labels": fine,
    }


def _main() -> dict:
    parser = argparse.ArgumentParser(
        prog="python -m keras_bert_zoo.metrics.relations", description=__doc__.split("\n")[0]
    )
    parser.add_argument("proposed", metavar="PROPOSED", help="File of proposed answers.")
    parser.add_argument("key", metavar="KEY", nargs="?", help="File of the right answers.")
    arguments = parser.parse_args()
    if arguments.key is None:
        if problems := check_answers(arguments.proposed):
            raise ValueError("\n".join([*problems, f"{len(problems)} problems."]))
        return {"format": "ok", "answers": len(read_answers(arguments.proposed))}
    proposed, key = read_answers(arguments.proposed), read_answers(arguments.key)
    print(relation_report(relation_tables(proposed, key)), end="")
    return score_relations(proposed, key)


if __name__ == "__main__":
    run(_main)
