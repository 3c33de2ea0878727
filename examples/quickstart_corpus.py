"""The corpus of the quick start: documents to pretrain on, and labelled ones to classify."""

import collections
import dataclasses
from pathlib import Path

from keras_bert_zoo.datasets.docstrings import read_docstrings
from keras_bert_zoo.datasets.documents import read_documents
from keras_bert_zoo.datasets.labelled import (
    LabelledDocument,
    cap_classes,
    choose_labels,
    drop_duplicates,
    drop_near_duplicates,
    hold_out,
)

MINIMUM_WORDS = 20  # of a text to be classified: shorter ones hardly say anything
LARGEST_CLASS = 0.2


@dataclasses.dataclass(frozen=True)
class Corpus:
    """Documents by their part: no file gives documents to both a training and a held-out part.

    Attributes:
        train: all training documents; none of the held-out ones, nor anything much like them.
        held_out: documents that show how well words and next sentences are predicted.
        labels: the classes, sorted.
        pool: the training documents that labelled examples are drawn from.
        test: the held-out documents to be classified.
    """

    train: list[LabelledDocument]
    held_out: list[LabelledDocument]
    labels: list[str]
    pool: list[LabelledDocument]
    test: list[LabelledDocument]

    @property
    def majority(self) -> float:
        """Accuracy of always answering the most frequent label."""
        return max(collections.Counter(d.label for d in self.test).values()) / len(self.test)

    def __str__(self) -> str:
        size = sum(len(d.text) for d in self.train) / 1e6
        return (
            f"{len(self.train):,} documents ({size:.1f} MB) to train on, "
            f"{len(self.held_out):,} held out; to classify {len(self.test):,} of these under "
            f"{len(self.labels)} labels: {', '.join(self.labels)}"
        )


def docstring_corpus(labels_per_class: int) -> Corpus:
    """The docstrings of the installed libraries, labelled with the library."""
    documents, skipped = read_docstrings()
    print(f"{len(documents):,} docstrings read; {skipped} files could not be parsed")
    return divide(documents, minimum_train=10 * labels_per_class, minimum_test=40)


def folder_corpus(folder: str | Path, labels_per_class: int) -> Corpus:
    """Text files of one's own: ``folder/LABEL/*.txt``, one sentence a line, blank line between.

    Raises:
        ValueError: there is no such folder, no label in it, or too little text under the labels.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise ValueError(f"--corpus_dir: there is no folder {str(folder)!r}.")
    documents = []
    for label in sorted(p.name for p in folder.iterdir() if p.is_dir()):
        for path in sorted((folder / label).rglob("*.txt")):
            source = path.relative_to(folder).as_posix()
            documents += [
                LabelledDocument(source, label, tuple(sentences))
                for sentences in read_documents(path, verbose=False)
            ]
    if not documents:
        raise ValueError(
            f"--corpus_dir: {str(folder)!r} must hold a folder for each label, and in it text "
            "files that end in .txt, with one sentence a line and a blank line between documents."
        )
    return divide(documents, minimum_train=labels_per_class, minimum_test=1)


def divide(documents: list[LabelledDocument], minimum_train: int, minimum_test: int) -> Corpus:
    """Drops duplicates, holds out by file, and chooses the classes.

    Raises:
        ValueError: there are no pairs of sentences to learn from or to measure on, or fewer than
            two labels have the texts they need.
    """
    train, held_out = hold_out(drop_duplicates(documents))
    held_out = drop_near_duplicates(held_out, train)
    long = [sum(len(d.lines) > 2 for d in part) for part in (train, held_out)]
    if min(long) < 2:
        raise ValueError(
            "The corpus is too small: it needs two documents of three sentences to train on, and "
            f"two in other files to measure on. Found: {long[0]} and {long[1]}."
        )
    pool, test = ([d for d in part if len(d.words) >= MINIMUM_WORDS] for part in (train, held_out))
    labels = choose_labels(pool, test, minimum_train, minimum_test)
    if len(labels) < 2:
        counts = {
            label: (sum(d.label == label for d in pool), sum(d.label == label for d in test))
            for label in sorted({d.label for d in documents})
        }
        raise ValueError(
            f"The corpus is too small: two labels or more need {minimum_train} documents of "
            f"{MINIMUM_WORDS} words to train on, and {minimum_test} in other files to test. "
            f"Found (to train on, to test): {counts}"
        )
    pool, test = ([d for d in part if d.label in labels] for part in (pool, test))
    return Corpus(
        train, held_out, labels, cap_classes(pool, LARGEST_CLASS), cap_classes(test, LARGEST_CLASS)
    )
