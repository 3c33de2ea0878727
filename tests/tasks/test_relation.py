"""`RelationClassifier`: the formulas of R-BERT, its two switches, texts, files, exports."""

import itertools
import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from tiny import VOCABULARY, tiny_config, tiny_encoder
from tiny_tasks import trained

import keras_bert_zoo as kbz
from keras_bert_zoo.metrics.relations import LABELS as RELATIONS
from keras_bert_zoo.tasks.relation import RelationClassifier

WORDS = [*VOCABULARY, "$", "#"]
LABELS = ["Other", "Part", "Whole"]
TAGGED = [
    "the <e1>cup</e1> of a <e2>film</e2> .",
    "good <e2>tea</e2> is <e1>fine tea</e1>",
    "<e1>paris</e1> <e2>france</e2>",
]
COLUMNS = {
    "text": ["the cup of a film .", "good tea is fine tea", "paris france"],
    "entity_1_start": [4, 12, 0],
    "entity_1_end": [7, 20, 5],
    "entity_2_start": [13, 5, 6],
    "entity_2_end": [17, 8, 12],
}
ENTITIES = [((4, 7), (13, 17)), ((12, 20), (5, 8)), ((0, 5), (6, 12))]
SWITCHES = [
    {"markers": markers, "entity_vectors": vectors}
    for markers, vectors in itertools.product((True, False), repeat=2)
]


def preprocessor(length=16, **settings):
    return kbz.TextPreprocessor(kbz.WordPieceTokenizer(WORDS), length, **settings)


def made(encoder=None, **settings):
    keras.utils.set_random_seed(0)
    encoder = encoder or tiny_encoder(vocab_size=len(WORDS), hidden_dropout_prob=0.0)
    settings = {"labels": LABELS, "preprocessor": preprocessor()} | settings
    return RelationClassifier(encoder, **settings)


def ids_of(task, texts=TAGGED):
    return task.read_texts(task.columns(texts))


def formulas(task, ids):
    """R-BERT's head in NumPy, written down from the paper."""
    weights = {weight.path: weight.numpy().astype("float64") for weight in task.weights}

    def dense(name, x):
        return x @ weights[f"{name}/kernel"] + weights[f"{name}/bias"]

    states = (
        task.encoder({name: ids[name] for name in task.encoder.input})["sequence_output"]
        .numpy()
        .astype("float64")
    )
    hidden = [dense("cls_dense", np.tanh(states[:, 0]))]
    for name in ("entity_1_mask", "entity_2_mask"):
        if not task.entity_vectors:
            break
        means = [
            row[mask == 1].mean(axis=0) for row, mask in zip(states, ids[name].numpy(), strict=True)
        ]
        hidden.append(dense("entity_dense", np.tanh(means)))
    return dense("relation_logits", np.concatenate(hidden, axis=-1))


@pytest.mark.parametrize("switches", SWITCHES)
def test_the_formulas(switches):
    task = trained(made(dropout=0.5, **switches))
    ids = ids_of(task)
    expected = formulas(task, ids)
    assert np.abs(expected).max() > 0.3
    np.testing.assert_allclose(task(ids), expected, atol=1e-5)
    np.testing.assert_allclose(task.predict(TAGGED, verbose=0), expected, atol=1e-5)
    assert (27 in ids["token_ids"].numpy()) is switches["markers"]


def test_both_entities_share_their_weights():
    task = made()
    paths = [w.path for w in task.trainable_weights if not w.path.startswith(("block", "emb"))]
    assert [path for path in paths if "entity" in path] == [
        "entity_dense/kernel",
        "entity_dense/bias",
    ]
    assert tuple(task.get_layer("relation_logits").kernel.shape) == (48, 3)
    assert tuple(made(entity_vectors=False).get_layer("relation_logits").kernel.shape) == (16, 3)


def test_a_gradient_reaches_all_pieces_of_both_entities_and_no_other():
    task = trained(made())
    ids = ids_of(task)
    vectors = task.get_layer("entity_mean")._inbound_nodes[0].input_tensors[0]
    masks = [task.input[name] for name in ("entity_1_mask", "entity_2_mask")]
    head = keras.Function([vectors, *masks], task.output)
    states = task.encoder({name: ids[name] for name in task.encoder.input})["sequence_output"]
    with tf.GradientTape() as tape:
        tape.watch(states)
        loss = tf.reduce_sum(head([states, ids["entity_1_mask"], ids["entity_2_mask"]])[:, 0])
    gradient = tape.gradient(loss, states).numpy()
    reached = np.abs(gradient).max(axis=-1) > 1e-6
    expected = (ids["entity_1_mask"] + ids["entity_2_mask"]).numpy() > 0
    expected[:, 0] = True  # [CLS]
    np.testing.assert_array_equal(reached, expected)


@pytest.mark.parametrize("switches", SWITCHES)
def test_it_learns(switches):
    task = made(**switches)
    task.compile(kbz.adamw(1e-2, 60), clip_norm=1.0)
    task.fit(TAGGED, ["Part", "Whole", "Other"], epochs=60, verbose=0)
    found = [answer["label"] for answer in task.classify(TAGGED)]
    assert found == ["Part", "Whole", "Other"]


def test_which_entity_is_which_is_seen():
    """The same words, and which of them is entity 1 makes the label."""
    texts = ["<e1>tea</e1> of <e2>paris</e2>", "<e2>tea</e2> of <e1>paris</e1>"]
    for switches in SWITCHES:
        first, second = trained(made(**switches)).predict(texts, verbose=0)
        is_seen = switches["markers"] or switches["entity_vectors"]
        assert bool(np.abs(first - second).max() > 1e-5) is is_seen
    task = made()
    task.compile(kbz.adamw(1e-2, 40), clip_norm=1.0)
    task.fit(texts, [1, 2], epochs=40, verbose=0)
    assert [answer["label"] for answer in task.classify(texts)] == ["Part", "Whole"]


def test_all_forms_of_texts_give_the_same_figures():
    task = made()
    task.compile("sgd")
    names, numbers = ["Part", "Whole", "Other"], np.array([1, 2, 0])
    ids = {name: rows.numpy() for name, rows in ids_of(task).items()}
    slices = tf.data.Dataset.from_tensor_slices
    table = {name: np.array(column) for name, column in COLUMNS.items()}
    expected = task.evaluate(ids, numbers, verbose=0)
    for x, y in (
        (ids, names),
        (TAGGED, names),
        (np.array(TAGGED), numbers),
        (COLUMNS, names),
        (table, numbers),
        (slices((table, names)), None),
        (slices((table, names)).batch(2), None),
        (slices((ids, numbers)).batch(2), None),
    ):
        assert task.evaluate(x, y, verbose=0) == pytest.approx(expected, abs=1e-5)
    logits = task.predict(TAGGED, verbose=0)
    for x in (COLUMNS, slices(table).batch(2), ids):
        np.testing.assert_allclose(task.predict(x, verbose=0), logits, atol=1e-6)
    answers = task.classify(COLUMNS["text"], ENTITIES)
    assert answers == task.classify(TAGGED) == task.classify(COLUMNS)
    assert list(answers[0]["probabilities"]) == LABELS
    assert answers[1]["probability"] == max(answers[1]["probabilities"].values())
    alone = task.classify(TAGGED[0])
    assert alone[0]["probabilities"] == pytest.approx(answers[0]["probabilities"], abs=1e-6)
    assert task.classify([]) == task.classify([], []) == []
    history = task.fit(TAGGED, names, validation_data=(COLUMNS, names), verbose=0).history
    assert "val_accuracy" in history
    assert "val_loss" in task.fit(COLUMNS, names, validation_split=1 / 3, verbose=0).history


@pytest.mark.parametrize("switches", SWITCHES)
def test_files_and_exports(switches, tmp_path, run_python):
    task = trained(made(**switches))
    task.save(tmp_path / "task.keras")
    task.export(tmp_path / "1")
    task.export(tmp_path / "ids", with_text=False)
    expected = task.predict(TAGGED, verbose=0)
    source = """
import sys, json, keras, keras_bert_zoo.tasks.relation
task = keras.saving.load_model(sys.argv[1])
print(json.dumps([task.predict(json.loads(sys.argv[2]), verbose=0).tolist(), task.labels,
                  task.markers, task.entity_vectors, task.dropout_rate]))
"""
    printed = run_python(source, tmp_path / "task.keras", json.dumps(TAGGED))
    logits, labels, *rest = json.loads(printed.splitlines()[-1])
    np.testing.assert_allclose(logits, expected, atol=1e-6)
    assert labels == LABELS and rest == [*switches.values(), 0.1]

    loaded = kbz.load_saved_model(tmp_path / "1")
    columns = {
        name: tf.constant(column, tf.string if name == "text" else tf.int32)
        for name, column in COLUMNS.items()
    }
    answer = loaded.signatures["serving_default"](**columns)
    np.testing.assert_allclose(answer["logits"], expected, atol=1e-5)
    np.testing.assert_allclose(answer["probabilities"], tf.nn.softmax(expected), atol=1e-5)
    assert [x.decode() for x in answer["label"].numpy()] == [
        LABELS[n] for n in expected.argmax(axis=-1)
    ]
    ids = ids_of(task)
    for served in (
        loaded.signatures["token_ids"],
        tf.saved_model.load(str(tmp_path / "ids")).signatures["serving_default"],
    ):
        np.testing.assert_allclose(served(**ids)["logits"], expected, atol=1e-5)
    with pytest.raises(tf.errors.InvalidArgumentError, match="overlap"):
        loaded.signatures["serving_default"](**columns | {"entity_2_start": tf.constant([5, 5, 6])})


def test_training_goes_on_from_a_file(tmp_path):
    task = made()
    task.compile(kbz.adamw(1e-2, 20))
    task.fit(TAGGED, [0, 1, 2], epochs=2, verbose=0)
    task.save(tmp_path / "task.keras")
    again = keras.saving.load_model(tmp_path / "task.keras")
    assert again.evaluate(TAGGED, [0, 1, 2], verbose=0) == pytest.approx(
        task.evaluate(TAGGED, [0, 1, 2], verbose=0), abs=1e-5
    )
    assert int(again.optimizer.iterations) == 2


def test_fixed_length_and_xla():
    encoder = tiny_encoder(16, vocab_size=len(WORDS), hidden_dropout_prob=0.0)
    figures = []
    for jit_compile in (False, True):
        task = made(encoder)
        task.compile("sgd", jit_compile=jit_compile)
        figures.append(task.evaluate(TAGGED, [0, 1, 2], verbose=0))
    assert figures[0] == pytest.approx(figures[1], abs=1e-5)


def test_from_a_preset(tmp_path):
    encoder = kbz.BertEncoder(tiny_config(vocab_size=len(WORDS)))
    encoder.save_to_preset(tmp_path / "encoder", kbz.WordPieceTokenizer(WORDS))
    with pytest.warns(UserWarning, match="no weights for cls_dense, entity_dense, relation_logits"):
        task = RelationClassifier.from_preset(
            tmp_path / "encoder", labels=RELATIONS, markers=False, sequence_length=16
        )
    assert task.labels == list(RELATIONS) and not task.markers
    kernel = task.get_layer("cls_dense").kernel.numpy()
    assert 0.01 < kernel.std() < 0.03
    ids = {name: rows for name, rows in ids_of(task).items() if name in encoder.input}
    np.testing.assert_allclose(
        task.encoder(ids)["sequence_output"], encoder(ids)["sequence_output"], atol=1e-6
    )
    with pytest.raises(ValueError, match=r"pass `labels=\[...\]`"):
        RelationClassifier.from_preset(tmp_path / "encoder")
    with pytest.raises(ValueError, match="Hugging Face has no class of R-BERT.*`save` writes"):
        task.save_to_preset(tmp_path / "task")
    assert not (tmp_path / "task").exists()


@pytest.mark.parametrize(
    "x, message",
    [
        (["a cup of tea"], "Text 0: two entities"),
        ([TAGGED[0], "a <e1>cup</e1>"], "Text 1: two entities"),
        ({"text": ["a cup of tea"]}, "a dict, or a dataset of dicts, of text, entity_1_start"),
        (COLUMNS | {"entity_1_end": [4, 20, 5]}, "Text 0: entity 1 must be characters"),
        (COLUMNS | {"entity_2_end": [17, 8, 13]}, "Text 2: entity 2 must be characters"),
        (COLUMNS | {"entity_2_start": [13, 5]}, "shorter"),
        ((TAGGED, TAGGED), "a dict, or a dataset of dicts"),
        ([("a", "b")] * 3, "one column of texts"),
    ],
)
def test_bad_texts(x, message):
    task = made()
    task.compile("sgd")
    for call in (task.predict, lambda x: task.fit(x, [0] * 3, verbose=0)):
        with pytest.raises(ValueError, match=message):
            call(x)


def test_bad_arguments():
    with pytest.raises(ValueError, match="2 texts and 1 pairs"):
        made().classify(COLUMNS["text"][:2], ENTITIES[:1])
    with pytest.raises(ValueError, match="Text 0"):
        made().classify(COLUMNS["text"][:1], [(4, 7)])
    with pytest.raises(ValueError, match="has no # and no [$] to mark.*`markers=False`"):
        made(preprocessor=kbz.TextPreprocessor(kbz.WordPieceTokenizer(VOCABULARY), 16))
    made(preprocessor=kbz.TextPreprocessor(kbz.WordPieceTokenizer(VOCABULARY), 16), markers=False)
    with pytest.raises(ValueError, match="at least two labels"):
        made(labels=["one"])
    with pytest.raises(ValueError, match="no preprocessor"):
        made(preprocessor=None).predict(TAGGED)
    with pytest.raises(ValueError, match="Label 1 is: 'Hole'"):
        task = made()
        task.compile("sgd")
        task.fit(TAGGED, ["Part", "Hole", "Other"], verbose=0)


def test_an_empty_mask_is_an_error():
    task = made()
    task.compile("sgd")
    ids = {name: rows.numpy() for name, rows in ids_of(task).items()}
    ids["entity_2_mask"][1] = 0
    with pytest.raises(tf.errors.InvalidArgumentError, match="`entity_2_mask` is 0 in rows"):
        task.fit(ids, np.array([0, 1, 2]), verbose=0)
