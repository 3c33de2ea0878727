"""Tokens that are added to a vocabulary have rows in the table, or it is an error."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from tiny import VOCABULARY, tiny_encoder

import keras_bert_zoo as kbz

MARKERS = ["[E1]", "[/E1]", "[E2]", "[/E2]"]
SIZE = len(VOCABULARY)
TEXT = "The [E1]cup[/E1] of [E2] Tea[/E2]s [E1"


def ids_of(numbers, length=None):
    rows = np.array([numbers], np.int32)
    return {
        "token_ids": rows,
        "segment_ids": np.zeros_like(rows),
        "padding_mask": np.ones_like(rows),
    }


def test_added_tokens_are_found_in_texts():
    plain = kbz.WordPieceTokenizer(VOCABULARY)
    tokenizer = plain.with_added_tokens(MARKERS)
    assert tokenizer.vocabulary == [*VOCABULARY, *MARKERS]
    assert [tokenizer.token_to_id(token) for token in MARKERS] == list(range(SIZE, SIZE + 4))
    tokens = [tokenizer.id_to_token(number) for number in tokenizer(TEXT).numpy()]
    assert tokens == [
        "the",
        "[E1]",
        "cup",
        "[/E1]",
        "of",
        "[E2]",
        "tea",
        "[/E2]",
        "[UNK]",
        *["[UNK]"] * 2,
    ]
    spans = tokenizer.tokenize_with_spans(TEXT)
    starts, ends = spans.char_starts.numpy(), spans.char_ends.numpy()
    assert TEXT[starts[1] : ends[1]] == "[E1]" and TEXT[starts[7] : ends[7]] == "[/E2]"
    # The old tokenizer is as it was, and text without the tokens has the same ids in both.
    assert plain.vocabulary == VOCABULARY and SIZE not in plain(TEXT).numpy()
    for text in ("the [cup] of tea!", "[e1] good", ""):
        np.testing.assert_array_equal(plain(text), tokenizer(text))
    # Adding again, or a token that is there, changes no id.
    more = tokenizer.with_added_tokens(["film", "[E1]", "tea cup"])
    assert more.vocabulary == [*VOCABULARY, *MARKERS, "tea cup"]
    words = [more.id_to_token(number) for number in more("a tea cup filming").numpy()]
    assert words == ["a", "tea cup", "film", "[UNK]"]
    special = tokenizer.recognising_special_tokens()
    assert special("[MASK][E1]").numpy().tolist() == [tokenizer.mask_id, SIZE]


def test_bc_r01(tmp_path, run_python):
    """Four markers are rows 30522 to 30525 of a table of 30526; the old rows do not change."""
    encoder = tiny_encoder(vocab_size=30522)
    for weight in encoder.weights:
        weight.assign(np.random.default_rng(0).normal(size=weight.shape))
    words = [*VOCABULARY, *(f"[unused{n}]" for n in range(30522 - SIZE))]
    tokenizer = kbz.WordPieceTokenizer(words).with_added_tokens(MARKERS)
    wider = encoder.resized(tokenizer.vocabulary_size)
    assert wider.config.vocab_size == 30526
    assert encoder.config.vocab_size == 30522
    for old, new in zip(encoder.weights, wider.weights, strict=True):
        assert old.path == new.path
        np.testing.assert_array_equal(old.numpy(), new.numpy()[: old.shape[0]])
    rows = wider.token_embedding.embeddings.numpy()
    assert rows.shape == (30526, 16)
    assert 0.01 < rows[30522:].std() < 0.03 and np.abs(rows[30522:]).max() <= 0.04

    task = kbz.TextClassifier(wider, ["a", "b"], kbz.TextPreprocessor(tokenizer, 16))
    ids = task.preprocessor([TEXT])
    marked = ids["token_ids"].numpy()
    assert sorted(set(marked[marked >= 30522])) == [30522, 30523, 30524, 30525]
    expected = task.predict([TEXT], verbose=0)
    assert np.isfinite(expected).all()
    task.save(tmp_path / "task.keras")
    source = """
import sys, json, keras, keras_bert_zoo
task = keras.saving.load_model(sys.argv[1])
text = json.loads(sys.argv[2])
print(json.dumps([task.predict([text], verbose=0).tolist(), task.tokenizer(text).numpy().tolist(),
    task.encoder.token_embedding.embeddings.numpy().tolist()[-4:], task.tokenizer.added_tokens]))
"""
    printed = run_python(source, tmp_path / "task.keras", json.dumps(TEXT)).splitlines()[-1]
    logits, again, last, added = json.loads(printed)
    np.testing.assert_allclose(logits, expected, atol=1e-6)
    assert again == tokenizer(TEXT).numpy().tolist() and added == MARKERS
    np.testing.assert_array_equal(np.array(last, np.float32), rows[30522:])
    with pytest.raises(ValueError, match="has 30526 entries, but the encoder's token table only"):
        kbz.TextClassifier(encoder, ["a", "b"], kbz.TextPreprocessor(tokenizer, 16))


def test_they_go_through_a_folder(tmp_path, recwarn):
    tokenizer = kbz.WordPieceTokenizer(VOCABULARY).with_added_tokens(MARKERS)
    encoder = tiny_encoder().resized(SIZE + 4)
    encoder.save_to_preset(tmp_path / "folder", tokenizer)
    again = kbz.WordPieceTokenizer.from_preset(tmp_path / "folder")
    assert again.added_tokens == tuple(MARKERS) and again.vocabulary == tokenizer.vocabulary
    np.testing.assert_array_equal(again(TEXT), tokenizer(TEXT))
    loaded = kbz.BertEncoder.from_preset(tmp_path / "folder")
    np.testing.assert_array_equal(
        loaded.token_embedding.embeddings, encoder.token_embedding.embeddings
    )
    assert not [w for w in recwarn if "folder" in str(w.message)]


@pytest.mark.parametrize("number", [SIZE, -1])
@pytest.mark.parametrize("length", [None, 3])
def test_an_id_past_the_table_is_an_error(length, number):
    encoder = tiny_encoder(length)
    message = rf"0 to {SIZE - 1} \(`vocab_size`\).*resized"
    for call in (encoder, tf.function(encoder), lambda x: encoder.predict(x, verbose=0)):
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            call(ids_of([2, number, 3]))
        call(ids_of([2, SIZE - 1, 3]))


def test_under_xla_what_comes_of_it_is_no_number():
    encoder = tiny_encoder(3)
    run = tf.function(encoder, jit_compile=True)
    expected = encoder(ids_of([2, 7, 3]))["sequence_output"]
    np.testing.assert_allclose(run(ids_of([2, 7, 3]))["sequence_output"], expected, atol=1e-5)
    for number in (SIZE, SIZE + 1000, -1):
        assert np.isnan(run(ids_of([2, number, 3]))["pooled_output"]).all()


def test_resizing_keeps_what_the_encoder_is():
    encoder = tiny_encoder(8, hidden_dropout_prob=0.3)
    encoder.get_layer("block_0").trainable = False
    encoder = type(encoder).from_config(encoder.get_config() | {"output_attentions": True})
    wider = encoder.resized(SIZE + 3)
    assert type(wider) is kbz.BertEncoder and wider.sequence_length == 8
    assert not wider.get_layer("block_0").trainable and wider.get_layer("block_1").trainable
    assert wider.output_attentions and wider.config.hidden_dropout_prob == 0.3
    x = ids_of([2, 7, 8, 9, 10, 11, 12, 3])
    for name in ("sequence_output", "pooled_output"):
        np.testing.assert_array_equal(wider(x)[name], encoder(x)[name])
    same = encoder.resized(SIZE)
    assert same is not encoder and same.config == encoder.config
    keras.utils.set_random_seed(1)
    first = encoder.resized(SIZE + 2).token_embedding.embeddings.numpy()[-2:]
    keras.utils.set_random_seed(1)
    np.testing.assert_array_equal(
        encoder.resized(SIZE + 2).token_embedding.embeddings.numpy()[-2:], first
    )
    assert first.any()
    for size in (SIZE - 1, 0, None, 40.0, True):
        with pytest.raises(ValueError, match="rows are added to the token table"):
            encoder.resized(size)


def test_bad_tokens():
    tokenizer = kbz.WordPieceTokenizer(VOCABULARY)
    for tokens in ("[E1]", [""], [" "], [3]):
        with pytest.raises(ValueError, match="Added tokens are a list of texts"):
            tokenizer.with_added_tokens(tokens)
    with pytest.raises(ValueError, match="line end"):
        tokenizer.with_added_tokens(["a\nb"])
    with pytest.raises(ValueError, match=r"lacks \[E1\]"):
        kbz.WordPieceTokenizer(VOCABULARY, added_tokens=["[E1]"])
