"""`TextEmbedder`: vectors, layers, `embed` against `predict`, and no training."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from tiny import WORDS, tiny_encoder, tiny_preprocessor
from tiny_heads import tiny_head

import keras_bert_zoo as kbz
from keras_bert_zoo.tasks import text_embedder
from keras_bert_zoo.tasks.text_embedder import TextEmbedder


def texts_of(count, longest=20, seed=0):
    random = np.random.default_rng(seed)
    return [" ".join(random.choice(WORDS, n)) for n in random.integers(0, longest, count)]


def made(**settings):
    keras.utils.set_random_seed(0)
    encoder = kbz.BertEncoder(tiny_encoder(initializer_range=0.3).config, output_hidden_states=True)
    return tiny_head("embedder", **({"encoder": encoder} | settings))


@pytest.mark.parametrize("batch_size", [1, 7, 64])
@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
def test_embed_is_predict_in_the_order_given(pooling, batch_size):
    task = made(pooling=pooling, preprocessor=tiny_preprocessor(16))
    texts = texts_of(60)
    vectors = task.embed(texts, batch_size=batch_size)
    assert vectors.shape == (60, 16) and vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, task.predict(texts, verbose=0), atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    for place in (0, 31, 59):
        np.testing.assert_allclose(vectors[place], task.embed([texts[place]])[0], atol=1e-5)


def test_several_windows(monkeypatch):
    task, texts = made(), texts_of(50)
    expected = task.embed(texts)
    monkeypatch.setattr(text_embedder, "WINDOW", 2)
    np.testing.assert_allclose(task.embed(texts, batch_size=4), expected, atol=1e-5)


def test_batches_are_no_longer_than_their_longest_text(monkeypatch):
    task = made(preprocessor=tiny_preprocessor(32))
    shapes, inner = [], task._embed_ids

    def spy(ids):
        shapes.append(tuple(ids["token_ids"].shape))
        return inner(ids)

    monkeypatch.setattr(TextEmbedder, "_embed_ids", property(lambda self: spy))
    texts = ["tea " * n for n in (1, 30, 2, 14, 6, 60, 3, 7)]
    task.embed(texts, batch_size=2)
    assert shapes == [(2, 32), (2, 16), (2, 8), (2, 8)]


@pytest.mark.parametrize("padding", ["max_length", "longest"])
def test_empty_and_long_texts(padding):
    tokenizer = tiny_preprocessor().tokenizer
    task = made(preprocessor=kbz.TextPreprocessor(tokenizer, 12, padding=padding))
    assert task.embed([]).shape == task.embed(np.array([])).shape == (0, 16)
    vectors = task.embed(["", "tea " * 1000, "tea " * 10, "x" * 5000])
    assert np.isfinite(vectors).all()
    np.testing.assert_allclose(vectors[1], vectors[2], atol=1e-5)
    np.testing.assert_allclose(task.embed("tea"), task.embed(["tea"]))
    np.testing.assert_allclose(task.embed(["", ""]), [vectors[0]] * 2, atol=1e-5)


def test_an_encoder_of_fixed_length():
    encoder = tiny_encoder(sequence_length=12, initializer_range=0.3)
    task, texts = made(encoder=encoder), texts_of(20)
    np.testing.assert_allclose(task.embed(texts), task.predict(texts, verbose=0), atol=1e-5)


def test_pairs():
    task = made()
    pairs = (["good tea", "a", ""], ["a cup", "bad film of paris", "tea"])
    expected = task.predict(pairs, verbose=0)
    for form in (pairs, list(zip(*pairs, strict=True)), {"text_a": pairs[0], "text_b": pairs[1]}):
        np.testing.assert_allclose(task.embed(form, batch_size=2), expected, atol=1e-5)
    with pytest.raises(ValueError, match="takes pairs of texts, and single texts were given"):
        task.embed(["tea"])


@pytest.mark.parametrize("layers", [[-1], [0], [1, 2], [-1, -2, -3], (2, 2)])
def test_layers_are_joined_before_pooling(layers):
    task = made(pooling="mean", normalize=False, layers=layers)
    ids = task.preprocessor(["good tea", "", "what is the capital of france ?"])
    states = task.encoder(ids)["hidden_states"]
    joined = np.concatenate([states[place] for place in layers], axis=-1)
    mask = ids["padding_mask"].numpy()[:, :, None]
    expected = (joined * mask).sum(axis=1) / mask.sum(axis=1)
    assert task.output.shape == (None, 16 * len(layers))
    np.testing.assert_allclose(task(ids), expected, atol=1e-5)
    if layers == [-1]:
        plain = tiny_head("embedder", task.encoder, normalize=False)
        np.testing.assert_allclose(plain(ids), expected, atol=1e-5)


def test_bad_set_ups():
    with pytest.raises(ValueError, match="`output_hidden_states=True`"):
        TextEmbedder(tiny_encoder(), layers=[-1])
    for layers in ([], [3], [-4], "-1", [1.0], -1, [None]):
        with pytest.raises(ValueError, match="places from -3 to 2"):
            made(layers=layers)
    with pytest.raises(ValueError, match="one of mean, cls, max. Received: sum"):
        made(pooling="sum")


def test_what_embed_refuses():
    task = made()
    for given in (
        task.preprocessor(["tea"]),
        tf.data.Dataset.from_tensors("tea"),
        [1, 2],
        None,
        3,
        {},
    ):
        with pytest.raises(ValueError, match="`embed` takes a list of texts"):
            task.embed(given)
    with pytest.raises(ValueError, match="Item 1 is 3"):
        task.embed(["tea", 3])
    for batch_size in (0, -1, 1.5):
        with pytest.raises(ValueError, match="`batch_size` must be at least 1"):
            task.embed(["tea"], batch_size=batch_size)
    with pytest.raises(ValueError, match="no preprocessor"):
        TextEmbedder(tiny_encoder()).embed(["tea"])


def test_it_has_no_loss():
    task = made()
    task.compile("sgd")
    texts = ["tea", "film"]
    for call in (
        lambda: task.fit(texts, np.zeros((2, 16)), verbose=0),
        lambda: task.fit(task.preprocessor(texts), np.zeros((2, 16)), verbose=0),
        lambda: task.evaluate(texts, np.zeros((2, 16)), verbose=0),
        lambda: task.train_on_batch(task.preprocessor(texts), np.zeros((2, 16))),
    ):
        with pytest.raises(ValueError, match="TextEmbedder has no loss and is not trained"):
            call()


def test_a_progress_bar_on_long_work(monkeypatch, capsys):
    task, texts = made(), texts_of(12)
    task.embed(texts, batch_size=4)
    assert capsys.readouterr().out == ""
    monkeypatch.setattr(text_embedder, "LONG_WORK", 3)
    task.embed(texts, batch_size=4)
    assert "3/3" in capsys.readouterr().out
    task.embed(texts, batch_size=4, verbose=0)
    assert capsys.readouterr().out == ""
    monkeypatch.setattr(text_embedder, "LONG_WORK", 99)
    task.embed(texts, batch_size=4, verbose=True)
    assert "3/3" in capsys.readouterr().out


def test_weights_that_change_are_seen():
    """The graph of `embed` is kept, the weights in it are not."""
    task = made()
    before = task.embed(["good tea"])
    task.encoder.token_embedding.embeddings.assign_add(
        np.random.default_rng(0).normal(size=(27, 16))
    )
    after = task.embed(["good tea"])
    assert np.abs(after - before).max() > 1e-2
    np.testing.assert_allclose(after, task.predict(["good tea"], verbose=0), atol=1e-5)


def test_an_export_gives_the_vector(tmp_path):
    task, texts = made(), texts_of(5)
    task.export(tmp_path / "1")
    serving = kbz.load_saved_model(tmp_path / "1").signatures
    expected = task.embed(texts)
    answer = serving["serving_default"](text=tf.constant(texts))
    assert set(answer) == {"embedding"}
    np.testing.assert_allclose(answer["embedding"], expected, atol=1e-5)
    answer = serving["token_ids"](**task.preprocessor(texts))
    np.testing.assert_allclose(answer["embedding"], expected, atol=1e-5)


def test_bfloat16_is_pooled_in_float32():
    encoder = kbz.BertEncoder(tiny_encoder(initializer_range=0.3).config, dtype="mixed_bfloat16")
    task, texts = made(encoder=encoder), texts_of(5)
    vectors = task.embed(texts)
    # Of length 1 to more digits than bfloat16 has.
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(vectors, task.predict(texts, verbose=0), atol=3e-2)
