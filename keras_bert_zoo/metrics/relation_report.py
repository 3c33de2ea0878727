"""The report of SemEval-2010 task 8's official scorer, to the letter."""

from collections.abc import Sequence

from keras_bert_zoo.metrics.relation_answers import OTHER
from keras_bert_zoo.metrics.relation_tables import RelationTable

_OTHER = "_Other"  # As the official scorer calls it, to sort it last.


def relation_report(tables: Sequence[RelationTable]) -> str:
    """What the official scorer prints of the tables that `relation_tables` gives."""
    parts = []
    for label in tables[0].foreign:
        parts.append(
            f"!!!WARNING!!! The proposed file contains {tables[0].column(label)} label(s) of type "
            f"'{_name(label)}', which is NOT present in the key file.\n\n"
        )
    for table in tables:
        lines = [
            f"<<< {table.title}",
            "",
            *_matrix(table),
            "",
            *_accuracies(table),
            "",
            "Results for the individual relations:",
            *(_relation(table, label) for label in table.labels),
            "",
            "Micro-averaged result (excluding Other):",
            _micro(table),
            "",
            "MACRO-averaged result (excluding Other):",
            "P = {:6.2f}%\tR = {:6.2f}%\tF1 = {:6.2f}%".format(*table.macro()),
        ]
        parts.append("\n".join(lines) + "\n" * 4)
    parts.append(
        "<<< The official score is (9+1)-way evaluation with directionality taken into account: "
        f"macro-averaged F1 = {tables[-1].macro()[2]:.2f}% >>>\n"
    )
    return "".join(parts)


def _matrix(table):
    columns = (*table.labels, *table.foreign)
    official = table.wrong_direction is not None
    rule = "      +" + "-----" * len(columns) + "+"
    yield "Confusion matrix:"
    names = "".join(f" {_short(label, label in table.foreign):>4}" for label in columns)
    yield f"       {names} <-- classified as"
    yield rule + (" -SUM- xDIRx skip  ACTUAL" if official else " -SUM- skip ACTUAL")
    for label in table.labels:
        counts = "".join(f"{table.counts[label, other]:4d} " for other in columns)
        row, turned, skipped, answers = (
            table.row(label),
            table.turned(label),
            table.skipped(label),
            table.answers[label],
        )
        yield f" {_short(label):>4} |{counts}| " + (
            f"{row:4d}  {turned:4d}  {skipped:4d} {answers:6d}"
            if official
            else f"{row:4d} {skipped:4d} {answers:4d}"
        )
    yield rule
    sums = "".join(f"{table.column(label):4d} " for label in columns)
    turned = sum(map(table.turned, table.labels))
    skipped = table.total - table.proposed
    yield f" -SUM- {sums}  " + (
        f"{table.proposed - turned:4d}  {turned:4d}  {skipped:4d} {table.total:6d}"
        if official
        else f"{table.proposed:4d} {skipped:4d} {table.total:4d}"
    )


def _accuracies(table):
    other = table.skipped(OTHER) if OTHER in table.labels else 0
    for name, above, below in (
        ("Coverage", table.proposed, table.total),
        ("Accuracy (calculated for the above confusion matrix)", table.correct, table.proposed),
        ("Accuracy (considering all skipped examples as Wrong)", table.correct, table.total),
        (
            "Accuracy (considering all skipped examples as Other)",
            table.correct + other,
            table.total,
        ),
    ):
        yield f"{name} = {above}/{below} = {100 * above / below:5.2f}%"


def _relation(table, label):
    correct, column, turned = table.counts[label, label], table.column(label), table.turned(label)
    precision, recall, f1 = table.rates(label)
    proposed = (
        f"({column:4d} +{turned:4d})" if table.wrong_direction is not None else f"{column:4d}"
    )
    return (
        f"{_name(label):>25} :    P = {correct:4d}/{proposed} = {precision:6.2f}%"
        f"     R = {correct:4d}/{table.answers[label]:4d} = {recall:6.2f}%     F1 = {f1:6.2f}%"
    )


def _micro(table):
    correct, proposed, existing = table.micro_counts()
    precision, recall, f1 = table.micro()
    return (
        f"P = {correct:4d}/{proposed:4d} = {precision:6.2f}%"
        f"     R = {correct:4d}/{existing:4d} = {recall:6.2f}%     F1 = {f1:6.2f}%"
    )


def _name(label):
    return _OTHER if label == OTHER else label


def _short(label, foreign=False):
    """ "Cause-Effect(e1,e2)" is C-E1, or *CE1 where the key does not have it."""
    if label == OTHER:
        return "_O_"
    first, second = label.split("-")
    direction = label[label.index("(e") + 2] if "(e" in label else ""
    return ("*" + first[0] if foreign else first[0] + "-") + second[0] + direction
