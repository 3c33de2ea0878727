"""SWAG, ARC and JSON lines: real files, files as people have them, and bad ones."""

import collections
import json
import re

import keras
import numpy as np
import pytest
import tensorflow as tf
from tiny import VOCABULARY, tiny_encoder, tiny_preprocessor

import keras_bert_zoo as kbz
from keras_bert_zoo.datasets.multiple_choice import (
    Choice,
    encode_choices,
    read_arc,
    read_choices,
    read_swag,
)

SWAG = (
    ",video-id,sent1,sent2,ending0,ending1,ending2,ending3,label\n"
    '0,a,Tea is fine.,She,drinks it.,"says ""no"", and goes.",is 12 " tall.,is bad.,1\n'
    '1,b,"A cup, a film.",,ends.,starts.,is good.,is bad.,3\n'
)
ARC = 'What is tea?,good,bad,fine,film,C\n"A, or ""B""?",one,two,,,2\nWhat?,a,b,c,,a\n'


def written(tmp_path, text, name="file.csv"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_swag(tmp_path, shared_data):
    rows = read_swag(written(tmp_path, SWAG))
    endings = ("She drinks it.", 'She says "no", and goes.', 'She is 12 " tall.', "She is bad.")
    assert rows.examples[0] == Choice("Tea is fine.", endings, 1, "0", 2)
    assert rows.examples[1].endings == ("ends.", "starts.", "is good.", "is bad.")
    assert (rows.examples[1].context, rows.examples[1].line) == ("A cup, a film.", 3)

    real = read_swag(shared_data / "swag" / "swag_allennlp_fixture.csv")
    assert len(real) == 11 and {len(e.endings) for e in real} == {4}
    assert real.examples[0].context == "Students lower their eyes nervously."
    assert real.examples[0].endings[0] == "She pats her shoulder, then saunters toward someone."
    assert real.examples[0].label == 2


def test_arc(tmp_path, shared_data):
    rows = read_arc(written(tmp_path, ARC)).examples
    assert rows[0] == Choice("What is tea?", ("good", "bad", "fine", "film"), 2, "1", 1)
    assert (rows[1].context, rows[1].endings, rows[1].label) == ('A, or "B"?', ("one", "two"), 1)
    assert (rows[2].endings, rows[2].label) == (("a", "b", "c"), 0)
    rows = read_arc(written(tmp_path, ARC + "Why?,a,b,c,B\nWho?,a,b,c,d,e,5\n")).examples
    assert [(len(e.endings), e.label) for e in rows[3:]] == [(3, 1), (5, 4)]

    path = shared_data / "arc" / "ARC-E_dev.csv"
    with pytest.raises(ValueError, match="ARC-E_dev.csv, line 5: there must be two choices"):
        read_arc(path)
    rows = read_arc(path, skip_bad_rows=True)
    # 102 rows have lost their choices, and the answer of two is a fifth one.
    assert (len(rows), len(rows.skipped)) == (2147, 104)
    assert collections.Counter(len(e.endings) for e in rows) == {4: 2142, 3: 5}
    assert sum("there are 4 choices" in reason for _, reason in rows.skipped) == 2
    test = read_arc(shared_data / "arc" / "ARC-E_test.csv", skip_bad_rows=True)
    assert (len(test), len(test.skipped)) == (549, 21)


def test_json_lines(tmp_path):
    lines = [
        {"question": "What?", "choices": ["a", "b ", "c", "d", "e"], "answer": 4},
        {"question": "What?", "choices": ["a", "b"], "answer": "B", "id": "x7"},
        {"question": " What? ", "choices": ["a", "b"]},
    ]
    path = written(tmp_path, "\n\n".join(map(json.dumps, lines)))
    assert read_choices(path).examples == [
        Choice("What?", ("a", "b", "c", "d", "e"), 4, "1", 1),
        Choice("What?", ("a", "b"), 1, "x7", 3),
        Choice("What?", ("a", "b"), None, "5", 5),
    ]


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "\ufeff" + text,
        lambda text: text.rstrip("\n"),
        lambda text: text.replace("\n", "\n\n"),
        lambda text: text.replace(",", " , ").replace(' "', '"').replace('" ', '"'),
    ],
)
def test_files_as_people_have_them(tmp_path, change):
    def contents(text, read, name):
        rows = read(written(tmp_path, text, name))
        squeezed = [[re.sub(r"\s", "", t) for t in (e.context, *e.endings)] for e in rows]
        return squeezed, [e.label for e in rows]

    for text, read in ((SWAG, read_swag), (ARC, read_arc)):
        assert contents(change(text), read, "a") == contents(text, read, "b")


def test_a_field_over_several_lines(tmp_path):
    text = ARC.replace("fine,film", '"fine\nor ""so""","fi\n\nlm"')
    rows = read_arc(written(tmp_path, text)).examples
    assert rows[0].endings == ("good", "bad", 'fine\nor "so"', "fi\nlm")
    assert [e.line for e in rows] == [1, 5, 6]


def test_swag_without_labels(tmp_path):
    text = "\n".join(line.rpartition(",")[0] for line in SWAG.splitlines())
    assert [e.label for e in read_swag(written(tmp_path, text))] == [None, None]


SWAG_ROW = "2,c,Tea.,She,drinks.,goes.,is.,was.,0\n"


@pytest.mark.parametrize(
    "read, text, bad, message",
    [
        (read_swag, SWAG, SWAG_ROW.replace(",0", ""), "line 4: there are 8 columns, and 9"),
        (read_swag, SWAG, SWAG_ROW.replace("was.,0", '"was.,0'), "line 4: there are 1 columns"),
        (read_swag, SWAG, SWAG_ROW.replace(",0", ',"0'), "line 4: there are 1 columns"),
        (read_swag, SWAG, SWAG_ROW.replace(",0", ",4"), "choice 5.*there are 4 choices"),
        (read_swag, SWAG, SWAG_ROW.replace(",0", ",B"), "a number from 0 to 3. Received: 'B'"),
        (read_swag, SWAG, SWAG_ROW.replace("goes.", ""), "line 4: choice 2 of 4 is blank"),
        (read_swag, SWAG, SWAG_ROW.replace("Tea.", " "), "line 4: there is no text"),
        (
            read_arc,
            ARC,
            "Why, or?,a,b,c,d,e,B\n",
            "line 4: there are 8 columns, and 5 or 6 or 7 are",
        ),
        (read_arc, ARC, "Why?,a,b,c,,D\n", r"choice 4 \(number 3 from 0\), and there are 3"),
        (read_arc, ARC, "Why?,a,b,c,,0\n", "a letter from A or a number from 1. Received: '0'"),
        (read_arc, ARC, "Why?,a,,c,d,A\n", "line 4: choice 2 of 4 is blank"),
        (read_arc, ARC, "Why?,,,,,1\n", "line 4: there must be two choices at least"),
        (read_arc, ARC, ",a,b,,,A\n", "line 4: there is no text"),
        (read_arc, ARC, '"Why?,a,b,c,d,B\n', "line 4: there are 1 columns"),
    ],
)
def test_bad_rows(tmp_path, read, text, bad, message):
    more = SWAG_ROW if read is read_swag else "Well?,a,b,c,d,B\n"
    path = written(tmp_path, text + bad + more * 2)
    with pytest.raises(ValueError, match=message) as error:
        read(path)
    assert f"{path}, line 4" in str(error.value)
    rows = read(path, skip_bad_rows=True)
    assert len(rows) == (4 if read is read_swag else 5)
    assert [line for line, _ in rows.skipped] == [4]


@pytest.mark.parametrize(
    "line, message",
    [
        ("{", "no JSON"),
        ("[1]", "an object of a string `question`"),
        ('{"question": "a", "choices": "bc"}', "a list of strings `choices`"),
        ('{"question": "a", "choices": ["b", 3], "answer": 0}', "a list of strings `choices`"),
        ('{"question": "a", "choices": ["b"], "answer": 0}', "two choices at least"),
        ('{"question": "a", "choices": ["b", "c"], "answer": 2}', "there are 2 choices"),
        ('{"question": "a", "choices": ["b", "c"], "answer": -1}', "there are 2 choices"),
        ('{"question": "a", "choices": ["b", "c"], "answer": "1"}', "a letter from A. Received"),
        ('{"question": "a", "choices": ["b", "c"], "answer": true}', "a letter from A. Received"),
        ('{"question": "a", "choices": ["b", "c"], "answer": "Z"}', "there are 2 choices"),
        ('{"question": "", "choices": ["b", "c"]}', "there is no text"),
    ],
)
def test_bad_json_lines(tmp_path, line, message):
    good = '{"question": "a", "choices": ["b", "c"], "answer": 1}'
    path = written(tmp_path, f"{good}\n{line}\n{good}\n")
    with pytest.raises(ValueError, match=f"line 2: .*{message}"):
        read_choices(path)
    assert len(read_choices(path, skip_bad_rows=True)) == 2


@pytest.mark.parametrize("read", [read_swag, read_arc, read_choices])
def test_bad_files(tmp_path, read):
    with pytest.raises(ValueError, match="holds no examples|must name sent1"):
        read(written(tmp_path, ""))
    with pytest.raises(ValueError, match="not UTF-8"):
        read(written(tmp_path, SWAG.encode("utf-16")))
    with pytest.raises(ValueError, match="cannot be read"):
        read(tmp_path / "none")
    with pytest.raises(ValueError, match="line 1: the header must name sent1, sent2, ending0"):
        read_swag(written(tmp_path, ARC))


def made(length=None, **settings):
    keras.utils.set_random_seed(0)
    encoder = tiny_encoder(length, hidden_dropout_prob=0.0, **settings)
    return kbz.MultipleChoice(encoder, tiny_preprocessor(16))


def test_bc_m01():
    """Two questions of four endings are (2, 4, 16), and the encoder sees (8, 16)."""
    task, seen = made(16), []
    table = task.encoder.token_embedding
    call = table.call
    table.call = lambda ids, **kwargs: (seen.append(ids.shape), call(ids, **kwargs))[1]
    endings = [("good tea", "film", "a cup", "is bad"), ("london", "paris", "what", "the ?")]
    rows = [
        Choice(context, row, label, "", 0)
        for context, row, label in zip(["a cup of", "what is"], endings, (3, 0), strict=True)
    ]
    (x, y) = next(iter(encode_choices(task, rows).evaluation_batches(2)))
    order = encode_choices(task, rows).evaluation_order
    names = ("token_ids", "segment_ids", "padding_mask")
    assert {name: (x[name].shape, x[name].dtype) for name in names} == dict.fromkeys(
        names, ((2, 4, 16), tf.int32)
    )
    assert y.numpy().tolist() == [[3, 0][n] for n in order]
    logits = task(x)
    assert logits.shape == (2, 4)
    assert seen == [(8, 16)]

    tokenizer = task.tokenizer
    for row, number in enumerate(order):
        for k, ending in enumerate(rows[number].endings):
            first, second = (
                tokenizer(text).numpy().tolist() for text in (rows[number].context, ending)
            )
            tokens = [tokenizer.cls_id, *first, tokenizer.sep_id, *second, tokenizer.sep_id]
            padding = [0] * (16 - len(tokens))
            assert x["token_ids"][row, k].numpy().tolist() == tokens + padding
            types = [0] * (len(first) + 2) + [1] * (len(second) + 1)
            assert x["segment_ids"][row, k].numpy().tolist() == types + padding
            assert x["padding_mask"][row, k].numpy().tolist() == [1] * len(tokens) + padding
    permuted = {name: tf.gather(part, [2, 0, 3, 1], axis=1) for name, part in x.items()}
    np.testing.assert_allclose(task(permuted), logits.numpy()[:, [2, 0, 3, 1]], atol=1e-5)


def test_unequally_many_endings():
    task = made()
    rows = [
        Choice("a cup of", ("tea", "film"), 0, "", 0),
        Choice("what is", ("good", "bad", "the capital of france ?"), 2, "", 0),
        Choice("paris is", ("fine", "a film", "the", "tea", "."), 4, "", 0),
    ]
    examples = encode_choices(task, rows)
    assert examples.features["token_ids"].row_lengths().numpy().tolist() == [2, 3, 5]
    assert {x["token_ids"].shape[1] for x, _ in examples.evaluation_batches(1)} == {2, 3, 5}
    assert sorted(y.numpy().tolist()[0] for _, y in examples.evaluation_batches(1)) == [0, 2, 4]
    table = {"text_a": [e.context for e in rows], "text_b": [e.endings for e in rows]}
    logits = task.predict(table, verbose=0)
    found = {}
    for numbers, outputs in examples.outputs(task, 2):
        found |= dict(zip(numbers.tolist(), outputs, strict=True))
    answers = task.choose(table, batch_size=2)
    for number, row in enumerate(rows):
        count = len(row.endings)
        np.testing.assert_allclose(found[number][:count], logits[number, :count], atol=1e-5)
        expected = tf.nn.softmax(logits[number, :count]).numpy()
        assert answers[number]["probabilities"] == pytest.approx(expected.tolist(), abs=1e-6)
        assert answers[number]["choice"] == expected.argmax()
        assert answers[number]["probability"] == pytest.approx(expected.max(), abs=1e-6)
    ids = {name: part.to_tensor() for name, part in examples.features.items()}
    for answer, same in zip(task.choose(ids), answers, strict=True):
        assert answer["probabilities"] == pytest.approx(same["probabilities"], abs=1e-5)
    none = task.choose({name: 0 * part for name, part in ids.items()})
    assert none == [{"choice": -1, "probability": 0.0, "probabilities": []}] * 3
    assert task.choose({"text_a": [], "text_b": []}) == []
    with pytest.raises(ValueError, match="use `predict`"):
        task.choose(tf.data.Dataset.from_tensor_slices(ids).batch(2))
    bare = Choice("a", ("b", "c"), None, "", 9)
    assert encode_choices(task, [bare]).targets is None
    with pytest.raises(ValueError, match="1 of 4 examples have no label, such as that of line 9"):
        encode_choices(task, [*rows, bare])


def test_a_tiny_model_overfits_twenty_questions(shared_data):
    rows = read_arc(shared_data / "arc" / "ARC-E_dev.csv", skip_bad_rows=True).examples
    rows = [row for row in rows if len(row.context) < 60][:20]
    texts = " ".join(" ".join([row.context, *row.endings]).lower() for row in rows)
    words = sorted(set(re.findall(r"\w+|[^\w ]", texts)))
    tokenizer = kbz.WordPieceTokenizer([*VOCABULARY[:5], *words])
    keras.utils.set_random_seed(1)
    encoder = tiny_encoder(
        vocab_size=tokenizer.vocabulary_size,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        initializer_range=0.1,
    )
    task = kbz.MultipleChoice(encoder, kbz.TextPreprocessor(tokenizer, 32), dropout=0.0)
    examples = encode_choices(task, rows)
    task.compile(kbz.adamw(1e-2, 120, 5), clip_norm=1.0)
    task.fit(examples.training_batches(20), epochs=60, verbose=0)
    figures = task.evaluate(examples.evaluation_batches(20), verbose=0, return_dict=True)
    assert figures["accuracy"] == 1
