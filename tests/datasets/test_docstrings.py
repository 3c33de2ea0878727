"""The docstring corpus: what is read, how it is cleaned and masked, and that it is honest."""

import gc
import textwrap

import pytest

from keras_bert_zoo.datasets import docstrings, labelled
from keras_bert_zoo.datasets.labelled import LabelledDocument

LIBRARIES = {"alpha": ("alpha",), "beta": ("beta", "beta_extra"), "missing": ("missing",)}


def write(folder, files):
    for path, text in files.items():
        path = folder / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
    return folder


@pytest.fixture
def site_packages(tmp_path):
    module = '''
        """Module of {0}. It has two sentences."""

        class Thing:
            """A thing of {0}."""

            def act(self):
                """Acts."""
                def inner():
                    "Inner of {0}."
                value = """not a docstring"""
        '''
    return write(
        tmp_path / "site-packages",
        {
            "alpha/__init__.py": module.format("first"),
            "alpha/_vendor/beta/copy.py": '"""A vendored copy."""',
            "alpha/tests/test_it.py": '"""A test."""',
            "alpha/inner_test.py": '"""Another test."""',
            "alpha/broken.py": '"""Unparsable."""\ndef (',
            "alpha/nothing.py": "x = 1\n",
            "beta/core.py": module.format("second"),
            "beta_extra/more.py": '"""More of it."""',
            "other/unknown.py": '"""Not in the list of libraries."""',
        },
    )


@pytest.fixture
def standard_library(tmp_path):
    return write(
        tmp_path / "lib",
        {
            "json.py": '"""Reads JSON."""',
            "test/test_json.py": '"""Tests it."""',
            "site-packages/alpha/__init__.py": '"""Not the standard library."""',
        },
    )


def test_reads_the_listed_libraries_without_tests_and_vendored_copies(
    site_packages, standard_library
):
    found, skipped = docstrings.read_docstrings(
        site_packages, standard_library, LIBRARIES, verbose=False
    )
    assert [(d.source, d.label, d.lines) for d in found] == [
        ("alpha/__init__.py", "alpha", ("Module of first.", "It has two sentences.")),
        ("alpha/__init__.py", "alpha", ("A thing of first.",)),
        ("alpha/__init__.py", "alpha", ("Acts.",)),
        ("alpha/__init__.py", "alpha", ("Inner of first.",)),
        ("beta/core.py", "beta", ("Module of second.", "It has two sentences.")),
        ("beta/core.py", "beta", ("A thing of second.",)),
        ("beta/core.py", "beta", ("Acts.",)),
        ("beta/core.py", "beta", ("Inner of second.",)),
        ("beta_extra/more.py", "beta", ("More of it.",)),
        ("json.py", "python", ("Reads JSON.",)),
    ]
    assert skipped == 1
    assert gc.isenabled()


def test_content_does_not_depend_on_where_the_folder_lies(
    site_packages, standard_library, tmp_path
):
    moved = tmp_path / "else" / "where"
    first, _ = docstrings.read_docstrings(site_packages, standard_library, LIBRARIES, verbose=False)
    moved.parent.mkdir()
    site_packages.rename(moved)
    second, _ = docstrings.read_docstrings(moved, standard_library, LIBRARIES, verbose=False)
    assert first == second


def test_folders_that_are_not_there_are_an_error(site_packages, standard_library, tmp_path):
    with pytest.raises(ValueError, match="is not a folder"):
        docstrings.read_docstrings(tmp_path / "no", standard_library)
    with pytest.raises(ValueError, match="is not a folder"):
        docstrings.read_docstrings(site_packages, tmp_path / "no")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="No Python file"):
        docstrings.read_docstrings(tmp_path / "empty", tmp_path / "empty")


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("Uses TensorFlow and NumPy.", "Uses library and library."),
        ("tf.keras.layers.Dense", "library.layers.Dense"),
        ("numpy.ndarray or np.array", "library.ndarray or library.array"),
        ("A KerasTensor, see is_keras_tensor", "A libraryTensor, see is_library_tensor"),
        ("TFRecord and np_array", "libraryRecord and library_array"),
        ("import matplotlib.pyplot as plt", "import library as library"),
        ("huggingface_hub, or Hugging Face", "library, or library"),
        ("the Hub of HF, HfApi", "the Hub of library, libraryApi"),
        ("tfds.load('mnist')", "library.load('mnist')"),
        ("setuptools-style pkg_resources", "library-style library"),
        ("an input, a lift, enriched, hippy, inputs", "an input, a lift, enriched, hippy, inputs"),
        ("Werkzeug's h5py file", "library's library file"),
        ("BUILT FOR TENSORFLOW", "BUILT FOR library"),
    ],
)
def test_names_of_libraries_are_masked(text, masked):
    assert docstrings.mask_names(text) == masked


def test_every_label_and_package_name_is_masked():
    names = [docstrings.STANDARD_LIBRARY, *docstrings.LIBRARIES]
    names += [top for tops in docstrings.LIBRARIES.values() for top in tops]
    for name in names:
        for text in (name, name.upper(), f"x.{name}.y", f"import {name} as z", f"in_{name}_use"):
            assert name.lower() not in docstrings.mask_names(text).lower(), text


def test_cleaning():
    docstring = """Computes the sum.

        A long paragraph that its author has wrapped somewhere behind the middle
        of the sentence. The second sentence of it. see e.g. this :ref:`link`.

        Args:
            first_argument: an argument whose description goes on for quite a while and
                is wrapped as well.
            second: another.

        ======  ======
        | a     | table |
        >>> add(1, 2)
        3

        .. versionadded:: 1.2
        :copyright: Copyright by the team.
        :license: BSD, see LICENSE for details.
        See https://example.org/tensorflow/page.html for more, or `add`.
        """
    assert docstrings.clean_docstring(docstring) == (
        "Computes the sum.",
        "A long paragraph that its author has wrapped somewhere behind the middle of the sentence.",
        "The second sentence of it. see e.g. this link.",
        "Args:",
        "first_argument: an argument whose description goes on for quite a while and is wrapped "
        "as well.",
        "second: another.",
        ">>> add(1, 2)",
        "See for more, or add.",
    )
    assert docstrings.clean_docstring("") == ()
    assert docstrings.clean_docstring("----\n| x |\n 12\n") == ()


def documents(*rows):
    return [LabelledDocument(source, label, (text,)) for source, label, text in rows]


def test_duplicates_keep_one_and_ambiguous_texts_none():
    found = documents(
        ("a/1.py", "a", "Returns the  name."),
        ("a/2.py", "a", "returns the name"),
        ("a/3.py", "a", "shared by two libraries"),
        ("b/1.py", "b", "Shared by two libraries!"),
        ("b/2.py", "b", "only here"),
    )
    assert labelled.drop_duplicates(found) == [found[0], found[4]]


def test_no_source_is_on_both_sides():
    found = documents(
        *(
            (f"{label}/{i}.py", label, f"text {j}")
            for label in "abc"
            for i in range(40)
            for j in (0, 1)
        )
    )
    train, held_out = labelled.hold_out(found, share=0.2)
    assert not {d.source for d in train} & {d.source for d in held_out}
    assert len(train) + len(held_out) == len(found)
    for label in "abc":
        assert len({d.source for d in held_out if d.label == label}) == 8
    # The side of a file does not depend on the order of the documents.
    assert {d.source for d in labelled.hold_out(found[::-1])[1]} == {d.source for d in held_out}


def test_the_only_source_of_a_label_is_trained_on_and_one_of_two_is_held_out():
    train, held_out = labelled.hold_out(
        documents(("x", "one", "t"), ("y", "two", "t"), ("z", "two", "u"))
    )
    assert [d.label for d in train] == ["one", "two"]
    assert [d.label for d in held_out] == ["two"]


def test_near_duplicates_of_what_was_seen_are_dropped():
    words = [f"word{i}" for i in range(40)]
    seen = documents(("s", "a", " ".join(words)), ("s", "a", "too short"))
    same, half, new, short = documents(
        ("h", "a", " ".join(words[:39]) + " changed"),
        ("h", "a", " ".join(words[:10] + [f"new{i}" for i in range(30)])),
        ("h", "a", " ".join(f"other{i}" for i in range(30))),
        ("h", "a", "Too short."),
    )
    assert labelled.drop_near_duplicates([same, half, new, short], seen) == [half, new]


def test_classes_are_capped_and_chosen_by_size():
    sizes = {"big": 500, "large": 300, "mid": 100, "low": 60, "few": 50, "rare": 5, "more": 45}
    found = documents(*((f"{k}/{i}.py", k, f"{k} {i}") for k, n in sizes.items() for i in range(n)))
    capped = labelled.cap_classes(found, 0.2)
    counts = {k: sum(d.label == k for d in capped) for k in sizes}
    assert max(counts.values()) <= 0.2 * len(capped)
    assert counts["low"] == 60 and counts["rare"] == 5
    assert max(counts.values()) + 1 > 0.2 * (len(capped) + 2)  # and no smaller than it must be
    assert labelled.choose_labels(found, found, 45, 45, maximum=4) == ["big", "large", "low", "mid"]
    assert "few" in labelled.choose_labels(found, found, 50, 45)
    # Two classes cannot both have less than a fifth.
    two = labelled.cap_classes([d for d in found if d.label in ("big", "mid")], 0.2)
    assert sum(d.label == "big" for d in two) == sum(d.label == "mid" for d in two) == 100
    assert labelled.cap_classes([], 0.2) == []


def test_draws_differ_by_seed_and_are_repeatable():
    found = documents(*((f"{k}/{i}.py", k, f"{k} {i}") for k in "ab" for i in range(50)))
    first, again, other = (labelled.draw_examples(found, ["a", "b"], 20, s) for s in (0, 0, 1))
    assert first == again == labelled.draw_examples(found[::-1], ["a", "b"], 20, 0)
    assert set(first) != set(other)
    assert [d.label for d in first] == ["a"] * 20 + ["b"] * 20
    with pytest.raises(ValueError, match=r"Cannot draw 60 .*'a'.*there are 50"):
        labelled.draw_examples(found, ["a"], 60, 0)
