"""The sum of embeddings against NumPy, its length check, its projection."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert_zoo.layers.embeddings import EmbeddingSum, TokenEmbedding

WIDTH = 6


def to_numpy(x):
    return keras.ops.convert_to_numpy(keras.ops.cast(x, "float32"))


def make_layer(seed=0, **settings):
    layer = EmbeddingSum(**({"max_positions": 9, "dropout": 0.0, "name": "sum"} | settings))
    layer.build((None, None, WIDTH), (None, None))
    random = np.random.default_rng(seed)
    for weight in layer.trainable_weights:
        weight.assign(random.normal(size=weight.shape))
    return layer


@pytest.fixture(scope="module")
def vectors():
    return np.random.default_rng(1).normal(size=(2, 5, WIDTH)).astype(np.float32)


SEGMENTS = np.array([[0, 0, 1, 1, 0], [1, 0, 0, 0, 0]], np.int32)


def plain(layer, vectors, segments=None):
    x = vectors + to_numpy(layer.position_table)[: vectors.shape[1]]
    if segments is not None:
        x = x + to_numpy(layer.segment_table)[segments]
    spread = np.sqrt(x.var(axis=-1, keepdims=True) + layer.epsilon)
    x = (x - x.mean(axis=-1, keepdims=True)) / spread
    x = x * to_numpy(layer.layer_norm.gamma) + to_numpy(layer.layer_norm.beta)
    if layer.projection is not None:
        x = x @ to_numpy(layer.projection.kernel) + to_numpy(layer.projection.bias)
    return x


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16", "mixed_float16"])
@pytest.mark.parametrize("shape", [(3, WIDTH), (2, 5, WIDTH), (2, 0, WIDTH)])
def test_the_product_with_the_table_and_its_gradient(policy, shape):
    layer = TokenEmbedding(7, WIDTH, dtype=policy)
    layer.build()
    x = tf.cast(np.random.default_rng(0).normal(size=shape), layer.compute_dtype)
    with tf.GradientTape() as tape:
        tape.watch(x)
        logits = layer(x, reverse=True)
    assert logits.shape == (*shape[:-1], 7) and logits.dtype == layer.compute_dtype
    table, vectors = to_numpy(layer.embeddings), to_numpy(x)
    to_x, to_table = tape.gradient(logits, [x, layer.embeddings.value])
    tolerance = {"atol": 1e-6} if policy == "float32" else {"rtol": 2e-2, "atol": 2e-2}
    np.testing.assert_allclose(to_numpy(logits), vectors @ table.T, **tolerance)
    np.testing.assert_allclose(to_numpy(to_x), np.broadcast_to(table.sum(0), shape), **tolerance)
    sums = vectors.reshape(-1, WIDTH).sum(axis=0)
    np.testing.assert_allclose(to_numpy(to_table), np.tile(sums, (7, 1)), **tolerance)
    assert to_table.dtype == "float32"


@pytest.mark.parametrize(
    "settings", [{"tie_weights": False}, {"logit_soft_cap": 0.5}, {"reverse_dtype": "float64"}]
)
def test_the_product_keeps_the_settings_of_the_base_class(settings):
    layer = TokenEmbedding(7, WIDTH, **settings)
    layer.build()
    base = keras.layers.ReversibleEmbedding(7, WIDTH, **settings)
    base.build()
    for weight, value in zip(base.weights, layer.weights, strict=True):
        weight.assign(value)
    x = np.random.default_rng(0).normal(size=(2, 5, WIDTH)).astype("float32")
    found, expected = (each(x, reverse=True) for each in (layer, base))
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("epsilon", [1e-12, 0.5])
@pytest.mark.parametrize("projection", [None, 4])
def test_equals_plain_numpy(vectors, epsilon, projection):
    layer = make_layer(epsilon=epsilon, projection_size=projection)
    outputs = layer(vectors, SEGMENTS)
    assert outputs.shape == (2, 5, projection or WIDTH)
    np.testing.assert_allclose(to_numpy(outputs), plain(layer, vectors, SEGMENTS), atol=2e-6)
    assert tuple(layer.compute_output_shape(vectors.shape, SEGMENTS.shape)) == outputs.shape


def test_without_segments(vectors):
    layer = EmbeddingSum(9, num_segments=0, dropout=0.0)
    outputs = layer(vectors)
    assert not any("segment" in weight.path for weight in layer.weights)
    np.testing.assert_allclose(to_numpy(outputs), plain(layer, vectors), atol=2e-6)


def test_dropout_in_training_alone(vectors):
    layer = make_layer(dropout=0.5)
    still = to_numpy(layer(vectors, SEGMENTS))
    np.testing.assert_array_equal(still, to_numpy(layer(vectors, SEGMENTS, training=False)))
    noisy = to_numpy(layer(vectors, SEGMENTS, training=True))
    dropped = noisy == 0
    assert 0.2 < dropped.mean() < 0.8
    np.testing.assert_allclose(noisy[~dropped], 2 * still[~dropped], rtol=1e-6)


def test_every_length_up_to_the_table_and_no_more():
    layer = make_layer()
    for length in (1, 9):
        assert layer(np.zeros((1, length, WIDTH)), np.zeros((1, length), int)).shape[1] == length
    with pytest.raises(ValueError, match=r"10 tokens.*9 rows"):
        layer(np.zeros((1, 10, WIDTH)), np.zeros((1, 10), int))
    with pytest.raises(ValueError, match=r"10 tokens.*9 rows"):
        EmbeddingSum(9).build((None, 10, WIDTH), (None, 10))


def test_a_dynamic_length_is_checked_when_run():
    layer = make_layer()

    @tf.function(
        input_signature=[
            tf.TensorSpec((None, None, WIDTH), tf.float32),
            tf.TensorSpec((None, None), tf.int32),
        ]
    )
    def run(vectors, segments):
        return layer(vectors, segments)

    assert run(tf.zeros((1, 9, WIDTH)), tf.zeros((1, 9), tf.int32)).shape[1] == 9
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"(?s)9 rows.*\[10\]"):
        run(tf.zeros((1, 10, WIDTH)), tf.zeros((1, 10), tf.int32))


def test_round_trip_of_the_config():
    settings = {
        "max_positions": 9,
        "num_segments": 3,
        "projection_size": 4,
        "dropout": 0.2,
        "epsilon": 0.5,
        "initializer_range": 0.3,
        "name": "other",
        "dtype": "mixed_bfloat16",
    }
    layer = EmbeddingSum(**settings)
    config = layer.get_config()
    assert {key: config[key] for key in settings if key != "dtype"} == {
        key: value for key, value in settings.items() if key != "dtype"
    }
    again = EmbeddingSum.from_config(config)
    assert again.get_config() == config
    assert again.dtype_policy.name == "mixed_bfloat16"


@pytest.mark.parametrize("projection", [None, 4])
def test_keras_file(vectors, tmp_path, projection):
    x, segments = keras.Input((None, WIDTH)), keras.Input((None,), dtype="int32")
    model = keras.Model([x, segments], make_layer(projection_size=projection)(x, segments))
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    feed = [vectors, SEGMENTS]
    np.testing.assert_array_equal(to_numpy(model(feed)), to_numpy(again(feed)))


def test_the_initial_spread_is_the_one_asked_for():
    layer = EmbeddingSum(500, num_segments=300, initializer_range=0.1)
    layer.build((None, None, 64), (None, None))
    for table in (layer.position_table, layer.segment_table):
        values = to_numpy(table)
        assert np.abs(values).max() <= 0.2  # Truncated at two standard deviations,
        assert values.std() == pytest.approx(0.088, abs=0.002)  # which narrows it by 0.88.
