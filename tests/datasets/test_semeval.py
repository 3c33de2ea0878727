"""Reading SemEval-2010 task 8: real files, files as people have them, and bad ones."""

import collections
import re

import numpy as np
import pytest
from tiny import VOCABULARY, tiny_encoder

import keras_bert_zoo as kbz
from keras_bert_zoo.datasets.semeval import RelationExample, encode_relations, read_relations
from keras_bert_zoo.metrics.relation_answers import without_direction
from keras_bert_zoo.metrics.relations import LABELS
from keras_bert_zoo.tasks.relation import RelationClassifier

SENTENCE = '7\t"A <e1>cup</e1> of <e2>tea</e2>."\nContent-Container(e2,e1)\nComment: none\n\n'


def written(tmp_path, text):
    path = tmp_path / "file.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_the_real_files(shared_data):
    folder = shared_data / "semeval2010_task8"
    train = read_relations(folder / "TRAIN_FILE.TXT")
    test = read_relations(folder / "TEST_FILE_FULL.TXT")
    assert (len(train), len(test), len(train.skipped)) == (8000, 2717, 0)
    assert train.examples[0] == RelationExample(
        1,
        "The system as described above has its greatest application in an arrayed configuration of "
        "antenna elements.",
        (73, 86),
        (98, 106),
        "Component-Whole(e2,e1)",
        1,
    )
    assert [e.id for e in test] == list(range(8001, 10718))
    assert test.examples[1].line == 5
    counts = collections.Counter(e.label for e in train)
    assert counts.keys() == {*LABELS} and counts["Other"] == 1410
    assert counts["Entity-Destination(e2,e1)"] == 1
    lines = (folder / "TEST_FILE_KEY.TXT").read_text().splitlines()
    key = dict(line.split("\t") for line in lines)
    assert {str(e.id): without_direction(e.label) for e in test} == key
    for example in (*train, *test):
        for start, end in (example.entity_1, example.entity_2):
            assert example.text[start:end].strip() and "<" not in example.text[start:end]


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text,
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "\ufeff" + text,
        lambda text: text.rstrip("\n"),
        lambda text: "\n\n" + text + "\n\n",
        lambda text: text.replace('"', ""),
        lambda text: text.replace("Comment: none\n", ""),
        lambda text: text.replace("\n\n", "\n"),
        lambda text: text.replace("\n\n", "\nand more of the comment\n\n"),
    ],
)
def test_files_as_people_have_them(tmp_path, change):
    text = SENTENCE + SENTENCE.replace("7", "8", 1).replace("tea", "“tea”")
    rows = read_relations(written(tmp_path, change(text)))
    assert [(e.id, e.text, e.label) for e in rows] == [
        (7, "A cup of tea.", "Content-Container(e2,e1)"),
        (8, "A cup of “tea”.", "Content-Container(e2,e1)"),
    ]
    assert rows.examples[1].entity_2 == (9, 14)


def test_sentences_without_labels(tmp_path):
    path = written(tmp_path, '1\t"A <e1>cup</e1> of <e2>tea</e2>."\n2\t"<e2>a</e2> <e1>b</e1>"\n')
    rows = read_relations(path, labelled=False)
    assert [(e.id, e.label, e.line) for e in rows] == [(1, None, 1), (2, None, 2)]
    with pytest.raises(ValueError, match=r"line 1: sentence 1 has no label.*labelled=False"):
        read_relations(path)
    labelled = written(tmp_path, SENTENCE)
    assert read_relations(labelled, labelled=False).examples[0].label is not None


@pytest.mark.parametrize(
    "bad, message",
    [
        ("9 <e1>a</e1> <e2>b</e2>\nOther\n\n", "line 5: a sentence starts with a line of its numb"),
        ('9\t"<e1>a</e1> b"\nOther\n\n', "line 5: two entities"),
        ('9\t"<e1>a</e1> <e2></e2>b"\nOther\n\n', "line 5: entity 2 must be characters"),
        ('9\t"<e1>a</e1> <e2>b</e2>"\nother\n\n', "line 5: the label 'other' is none of"),
        (
            '9\t"<e1>a</e1> <e2>b</e2>"\nCause-Effect\n\n',
            "line 5: the label 'Cause-Effect' is none",
        ),
        ('9\t"<e1>a</e1> <e2>b</e2>"\nComment: x\n\n', "line 5: sentence 9 has no label"),
        ('9\t"<e1>a</e1> <e2>b</e2>"\n\n', "line 5: sentence 9 has no label"),
        (SENTENCE, "line 5: sentence 7 stands in line 1 already"),
        ("\n\n\nComment: of nothing\n", "line 8: a sentence starts with"),
    ],
)
def test_bad_sentences(tmp_path, bad, message):
    path = written(tmp_path, SENTENCE + bad + SENTENCE.replace("7", "8", 1))
    with pytest.raises(ValueError, match=message) as error:
        read_relations(path)
    assert str(path) in str(error.value)
    rows = read_relations(path, skip_bad_rows=True)
    assert [e.id for e in rows] == [7, 8]
    assert len(rows.skipped) == 1 and "1 rows of" in rows.summary


def test_bad_files(tmp_path):
    with pytest.raises(ValueError, match="holds no examples"):
        read_relations(written(tmp_path, "\n\n"))
    with pytest.raises(ValueError, match="line 1: not UTF-8"):
        read_relations(written(tmp_path, SENTENCE.encode("utf-16")))
    with pytest.raises(ValueError, match="cannot be read"):
        read_relations(tmp_path / "none.txt")
    rows = read_relations(written(tmp_path, SENTENCE.replace("Content", "My")), labels=None)
    assert rows.examples[0].label == "My-Container(e2,e1)"


def task_of(labels, rows, sequence_length=48):
    """A tiny task that knows the words of some sentences."""
    words = sorted({word for row in rows for word in re.findall(r"\w+|[^\w ]", row.text.lower())})
    tokenizer = kbz.WordPieceTokenizer([*VOCABULARY[:5], "$", "#", *words])
    encoder = tiny_encoder(
        vocab_size=tokenizer.vocabulary_size,
        max_position_embeddings=sequence_length,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return RelationClassifier(encoder, labels, kbz.TextPreprocessor(tokenizer, sequence_length))


def test_encoding(shared_data):
    rows = read_relations(shared_data / "semeval2010_task8" / "TRAIN_FILE.TXT").examples[:50]
    task = task_of(LABELS, rows, 40)
    examples = encode_relations(task, rows)
    assert len(examples) == 50
    assert [LABELS[n] for n in examples.targets] == [e.label for e in rows]
    assert examples.features.keys() == task.input.keys()
    found = {}
    for numbers, logits in examples.outputs(task, 8):
        found |= dict(zip(numbers.tolist(), logits, strict=True))
    columns = task.columns([e.text for e in rows], [(e.entity_1, e.entity_2) for e in rows])
    expected = task.predict(columns, verbose=0)
    np.testing.assert_allclose([found[n] for n in range(50)], expected, atol=1e-5)
    (batch,) = examples.evaluation_batches(50)
    assert (
        batch[0]["token_ids"].shape[1] % 8 == 0 and (batch[0]["entity_1_mask"].numpy() >= 0).all()
    )

    bare = [RelationExample(1, "a b", (0, 1), (2, 3), None, 3)]
    assert encode_relations(task, bare).targets is None
    with pytest.raises(ValueError, match="1 of 51 sentences have no label, such as that of line 3"):
        encode_relations(task, rows + bare)
    with pytest.raises(ValueError, match="Line 1 has the label 'Component-Whole"):
        encode_relations(task_of(["a", "b"], rows), rows)
    with pytest.raises(ValueError, match="equally many, and at least one"):
        encode_relations(task, [])


def test_a_tiny_model_overfits_forty_sentences(shared_data):
    rows = read_relations(shared_data / "semeval2010_task8" / "TRAIN_FILE.TXT").examples[:40]
    task = task_of(LABELS, rows)
    examples = encode_relations(task, rows)
    task.compile(kbz.adamw(3e-3, 400, 20), clip_norm=1.0)
    task.fit(examples.training_batches(20), epochs=60, verbose=0)
    figures = task.evaluate(examples.evaluation_batches(40), verbose=0, return_dict=True)
    assert figures["accuracy"] == 1
