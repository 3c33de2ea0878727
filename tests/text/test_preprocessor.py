"""Strings to the three inputs of an encoder."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert_zoo.text.preprocessor import TextPreprocessor
from keras_bert_zoo.text.vocabulary import SPECIAL_TOKENS
from keras_bert_zoo.text.wordpiece import WordPieceTokenizer

TOKENS = [*SPECIAL_TOKENS, "tea", "##pot", "cup", "##s", "for", "two"]
PAIR = {
    "token_ids": [2, 5, 9, 10, 3, 7, 8, 3, 0],
    "segment_ids": [0, 0, 0, 0, 0, 1, 1, 1, 0],
    "padding_mask": [1, 1, 1, 1, 1, 1, 1, 1, 0],
}
SINGLE = {
    "token_ids": [2, 5, 9, 10, 3, 0, 0, 0, 0],
    "segment_ids": [0] * 9,
    "padding_mask": [1, 1, 1, 1, 1, 0, 0, 0, 0],
}


@pytest.fixture
def preprocessor():
    return TextPreprocessor(WordPieceTokenizer(TOKENS), 9)


def lists(outputs):
    assert all(tensor.dtype == tf.int32 for tensor in outputs.values())
    return {name: tensor.numpy().tolist() for name, tensor in outputs.items()}


def batch_of(row):
    return {name: [values] for name, values in row.items()}


@pytest.mark.parametrize(
    "texts",
    [
        ["tea for two"],
        np.array(["tea for two"]),
        tf.constant(["tea for two"]),
        {"text": ["tea for two"]},
    ],
    ids=lambda x: type(x).__name__,
)
def test_single_texts(preprocessor, texts):
    assert lists(preprocessor(texts)) == batch_of(SINGLE)


@pytest.mark.parametrize(
    "texts",
    [
        (["tea for two"], ["cups"]),
        {"text_a": ["tea for two"], "text_b": ["cups"]},
        {"text_b": np.array(["cups"]), "text_a": tf.constant(["tea for two"])},
    ],
    ids=lambda x: type(x).__name__,
)
def test_pairs(preprocessor, texts):
    assert lists(preprocessor(texts)) == batch_of(PAIR)


def test_one_example(preprocessor):
    assert lists(preprocessor("tea for two")) == SINGLE
    assert lists(preprocessor(("tea for two", "cups"))) == PAIR


def test_empty_batches(preprocessor):
    for texts in ([], ([], []), {"text_a": [], "text_b": np.array([], object)}):
        assert {tuple(tensor.shape) for tensor in preprocessor(texts).values()} == {(0, 9)}


def test_truncation_of_real_text(shared_data):  # BC-S01, BC-P02
    path = shared_data / "vocab/bert-base-uncased/vocab.txt"
    tokenizer = WordPieceTokenizer(path, special_tokens_in_text=True)
    ids = TextPreprocessor(tokenizer, 5)(["book [MASK] now"])["token_ids"]
    assert ids.numpy().tolist() == [[101, 2338, 103, 2085, 102]]
    ids = TextPreprocessor(WordPieceTokenizer(path), 7)(["book [MASK] now"])["token_ids"]
    assert ids.numpy().tolist() == [[101, 2338, 1031, 7308, 1033, 2085, 102]]
    pair = TextPreprocessor(tokenizer, 7)((["a b c d e f"], ["x y z x y"]))
    letters = [tokenizer.token_to_id(letter) for letter in "abxy"]
    assert pair["token_ids"].numpy().tolist() == [[101, *letters[:2], 102, *letters[2:], 102]]


def test_padding_to_the_longest():
    preprocessor = TextPreprocessor(WordPieceTokenizer(TOKENS), 9, padding="longest")
    assert preprocessor(["tea", "tea for two"])["token_ids"].shape == (2, 5)
    output = preprocessor(keras.Input((), dtype="string"))["token_ids"]
    assert output.shape == (None, None)


@pytest.mark.parametrize(
    ("texts", "shown"),
    [
        (("a", "b", "c"), "received 3 parts"),
        (({"text": "a"},), "received 1 parts"),
        ({"text_a": ["a"]}, r"received \['text_a'\]"),
        ({"text": ["a"], "label": ["b"]}, r"received \['label', 'text'\]"),
        ((["a", "b"], ["c"]), r"same shape, received \(2,\) and \(1,\)"),
        ((["a"], "c"), r"same shape, received \(1,\) and \(\)"),
        ([["a", "b"]], r"texts must be .*shape \(1, 2\)"),
        ((["a"], [["b"]]), r"text_b must be .*shape \(1, 1\)"),
        ({"text": [1]}, r"text must be .*list: \[1\]"),
    ],
    ids=str,
)
def test_wrong_inputs(preprocessor, texts, shown):
    with pytest.raises(ValueError, match=shown):
        preprocessor(texts)


def test_wrong_settings():
    tokenizer = WordPieceTokenizer(TOKENS)
    with pytest.raises(ValueError, match="at least 2"):
        TextPreprocessor(tokenizer, 1)
    with pytest.raises(ValueError, match="padding must be"):
        TextPreprocessor(tokenizer, 8, padding="none")
    with pytest.raises(ValueError, match=r"at least 3 .*pair of texts, received 2"):
        TextPreprocessor(tokenizer, 2)((["a"], ["b"]))
    inputs = [keras.Input((), dtype="string") for _ in range(2)]
    with pytest.raises(ValueError, match=r"at least 3"):
        TextPreprocessor(tokenizer, 2)(tuple(inputs))


def test_in_tf_data(preprocessor):
    singles = tf.data.Dataset.from_tensor_slices(["tea for two"] * 5)
    for batch in (next(iter(singles.batch(5).map(preprocessor))),):
        assert lists(batch)["token_ids"] == [SINGLE["token_ids"]] * 5
        assert batch["token_ids"].shape == (5, 9)
    assert lists(next(iter(singles.map(preprocessor)))) == SINGLE
    pairs = tf.data.Dataset.from_tensor_slices((["tea for two"], ["cups"])).batch(1)
    # What a dataset of pairs passes on: two arguments, or a dict.
    assert lists(next(iter(pairs.map(lambda a, b: preprocessor((a, b)))))) == batch_of(PAIR)
    dicts = pairs.map(lambda a, b: {"text_a": a, "text_b": b})
    mapped = dicts.map(preprocessor)
    assert lists(next(iter(mapped))) == batch_of(PAIR)
    assert mapped.element_spec["token_ids"].shape.as_list() == [None, 9]


def test_config_round_trip(preprocessor):
    config = preprocessor.get_config()
    assert "teapot" not in json.dumps(config) and "##pot" not in json.dumps(config)
    again = TextPreprocessor.from_config(config)
    assert (again.sequence_length, again.padding) == (9, "max_length")
    assert again.tokenizer.lowercase is True
    with pytest.raises(ValueError, match="has no vocabulary"):
        again(["tea"])


RELOAD = """
import sys, json
import keras, tensorflow as tf
import keras_bert_zoo
model = keras.models.load_model(sys.argv[1])
inputs = {name: tf.constant(texts) for name, texts in json.loads(sys.argv[2]).items()}
print(json.dumps({name: tensor.numpy().tolist() for name, tensor in model(inputs).items()}))
"""

SERVE = """
import sys, json
import tensorflow as tf, tensorflow_text
serve = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
inputs = {name: tf.constant(texts) for name, texts in json.loads(sys.argv[2]).items()}
print(json.dumps({name: tensor.numpy().tolist() for name, tensor in serve(**inputs).items()}))
"""


def test_saved_and_exported_pairs(tmp_path, run_python):  # BC-E05
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("\n".join(TOKENS) + "\n")
    preprocessor = TextPreprocessor(WordPieceTokenizer(vocabulary), 9)
    inputs = {name: keras.Input((), dtype="string", name=name) for name in ("text_a", "text_b")}
    model = keras.Model(inputs, preprocessor(inputs))
    model.save(tmp_path / "model.keras")
    model.export(tmp_path / "served", verbose=False)
    vocabulary.unlink()
    argument = json.dumps({"text_a": ["tea for two"], "text_b": ["cups"]})
    for source, path in ((RELOAD, "model.keras"), (SERVE, "served")):
        printed = run_python(source, tmp_path / path, argument)
        assert json.loads(printed.strip().split("\n")[-1]) == batch_of(PAIR)
