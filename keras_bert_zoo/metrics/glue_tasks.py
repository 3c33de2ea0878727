"""The tasks of GLUE: their classes, metrics and files (Wang et al. 2018, arXiv 1804.07461)."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class GlueTask:
    """What is fixed about a task.

    Attributes:
        name: as GLUE writes it.
        metrics: of "mcc" (Matthews correlation), "accuracy", "f1" (of the class 1), "pearson" and
            "spearman", in the order in which results are reported.
        classes: names of the classes, in the order of their numbers; empty for a regression.
        written: what files have for each class.
        label_column: the column of the labels in GLUE's own TSV files; an index where these have
            no header.
        range: of a regression, the lowest and highest score.
    """

    name: str
    metrics: tuple[str, ...]
    classes: tuple[str, ...]
    written: tuple[str, ...]
    label_column: str | int
    range: tuple[float, float] | None = None

    @property
    def file_name(self) -> str:
        """The name that a file of predictions has in a submission."""
        return f"{self.name}.tsv"


_NUMBERS = ("0", "1")
_TWO = ("entailment", "not_entailment")
_THREE = ("entailment", "neutral", "contradiction")
_TASKS = (
    GlueTask("CoLA", ("mcc",), ("unacceptable", "acceptable"), _NUMBERS, 1),
    GlueTask("SST-2", ("accuracy",), ("negative", "positive"), _NUMBERS, "label"),
    GlueTask("MRPC", ("accuracy", "f1"), ("not_equivalent", "equivalent"), _NUMBERS, "Quality"),
    GlueTask("QQP", ("accuracy", "f1"), ("not_duplicate", "duplicate"), _NUMBERS, "is_duplicate"),
    GlueTask("STS-B", ("pearson", "spearman"), (), (), "score", (0.0, 5.0)),
    GlueTask("MNLI-m", ("accuracy",), _THREE, _THREE, "gold_label"),
    GlueTask("MNLI-mm", ("accuracy",), _THREE, _THREE, "gold_label"),
    GlueTask("QNLI", ("accuracy",), _TWO, _TWO, "label"),
    GlueTask("RTE", ("accuracy",), _TWO, _TWO, "label"),
    GlueTask("WNLI", ("accuracy",), ("not_entailment", "entailment"), _NUMBERS, "label"),
    # The diagnostic set, which the models of MNLI answer.
    GlueTask("AX", ("mcc",), _THREE, _THREE, "Label"),
)
GLUE_TASKS = {task.name: task for task in _TASKS}
_OTHER_NAMES = {"mnli": "MNLI-m", "mnlimatched": "MNLI-m", "mnlimismatched": "MNLI-mm"}


def glue_task(name: str) -> GlueTask:
    """The task of a name; case, hyphens and underscores do not count, and "MNLI" is "MNLI-m".

    Raises:
        ValueError: if there is none.
    """
    plain = name.lower().replace("-", "").replace("_", "")
    for task in _TASKS:
        if plain == task.name.lower().replace("-", "") or task.name == _OTHER_NAMES.get(plain):
            return task
    raise ValueError(f"GLUE's tasks are {', '.join(GLUE_TASKS)}. Received: {name!r}")
