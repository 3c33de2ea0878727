"""`QuestionAnswering`: the softmax over real tokens, places, the best span, and its rules."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from tiny import tiny_encoder, tiny_preprocessor
from tiny_heads import batch_for, texts_for, tiny_head

import keras_bert_zoo as kbz
from keras_bert_zoo.tasks.span_decoding import best_spans

QUESTIONS = ["what is fine ?", "what is bad ?", "what is good ?", "what is fine ?"]
TEXTS = ["tea is fine .", "the film is bad .", "a cup of tea is good !", "film"]
PAIRS = (QUESTIONS, TEXTS)
# The words "tea", "the film", "a cup of tea"; and no answer.
SPANS = {"start_positions": np.array([6, 6, 6, 0]), "end_positions": np.array([6, 7, 9, 0])}


def made(length=16, **settings):
    keras.utils.set_random_seed(0)
    return tiny_head("question", **({"preprocessor": tiny_preprocessor(length)} | settings))


def test_it_learns_and_an_export_finds_the_spans(tmp_path):
    task = made()
    task.compile(kbz.adamw(1e-2, 120, 10), clip_norm=1.0)
    ids = task.preprocessor(PAIRS)
    task.fit(ids, SPANS, batch_size=4, epochs=120, verbose=0)
    assert task.evaluate(ids, SPANS, verbose=0, return_dict=True)["exact_span"] == 1
    task.export(tmp_path / "1")
    answer = kbz.load_saved_model(tmp_path / "1").signatures["serving_default"](
        text_a=tf.constant(QUESTIONS), text_b=tf.constant(TEXTS)
    )
    answer = {name: value.numpy() for name, value in answer.items()}
    assert answer["start"].tolist()[:3] == [6, 6, 6] and answer["end"].tolist()[:3] == [6, 7, 9]
    rows = np.arange(4)
    sums = answer["start_logits"][rows, answer["start"]] + answer["end_logits"][rows, answer["end"]]
    np.testing.assert_allclose(answer["score"], sums, atol=1e-6)
    null = answer["start_logits"][:, 0] + answer["end_logits"][:, 0]
    np.testing.assert_allclose(answer["null_score"], null, atol=1e-6)
    assert (answer["score"] > null).tolist() == [True, True, True, False]


def test_loss_and_score_are_over_real_tokens():
    task = made()
    task.compile("sgd")
    # Padding would win, were it let in.
    x, y = batch_for("question")
    outputs = task.predict(x, verbose=0)
    losses, hits = [], []
    for row in range(4):
        real = x["padding_mask"][row] == 1
        pair = []
        for name, places in (("start", "start_positions"), ("end", "end_positions")):
            logits = outputs[f"{name}_logits"][row, real].astype("float64")
            place = y[places][row]
            pair.append((np.log(np.exp(logits).sum()) - logits[place], logits.argmax() == place))
        losses.append((pair[0][0] + pair[1][0]) / 2)
        hits.append(pair[0][1] and pair[1][1])
    first = {name: part[:4] for name, part in x.items()}
    targets = {name: part[:4] for name, part in y.items()}
    figures = task.evaluate(first, targets, verbose=0, return_dict=True)
    assert figures["loss"] == pytest.approx(np.mean(losses), rel=1e-5)
    assert figures["exact_span"] == pytest.approx(np.mean(hits))


def test_padding_is_hidden_from_loss_and_score_but_not_from_the_logits():
    task = made()
    x, y = batch_for("question")
    x, y = ({n: tf.constant(t[:4]) for n, t in part.items()} for part in (x, y))
    outputs = task(x)
    padding = x["padding_mask"] == 0
    assert tf.reduce_any(padding) and tf.reduce_all(tf.abs(outputs["start_logits"]) < 100)
    expected = [task.loss_terms(x, y, outputs, None), task.score_terms(x, y, outputs, None)]
    wild = {name: tf.where(padding, 50.0, logits) for name, logits in outputs.items()}
    found = [task.loss_terms(x, y, wild, None), task.score_terms(x, y, wild, None)]
    np.testing.assert_allclose(*map(keras.tree.flatten, (found, expected)), rtol=1e-6)


def test_a_negative_place_takes_an_example_out():
    task = made()
    task.compile("sgd")
    x, y = batch_for("question")
    y = {name: np.maximum(column, 0) for name, column in y.items()}
    kept = {name: part[2:] for name, part in x.items()}
    expected = task.evaluate(kept, {name: part[2:] for name, part in y.items()}, verbose=0)
    y["start_positions"][0] = -1
    y["end_positions"][1] = -7
    assert task.evaluate(x, y, batch_size=3, verbose=0) == pytest.approx(expected, abs=1e-5)
    none = {name: np.full_like(column, -1) for name, column in y.items()}
    assert task.evaluate(x, none, verbose=0)[0] == 0


@pytest.mark.parametrize("name", ["start_positions", "end_positions"])
def test_a_place_outside_the_row_is_an_error(name):
    task = made()
    task.compile("sgd")
    x, y = batch_for("question")
    short = int(x["padding_mask"][0].sum())
    assert short < 12
    for place in (short, 12, 1000):
        y[name][0] = place
        message = rf"`{name}` must lie among the row's tokens.*\[{place}\]"
        with pytest.raises(tf.errors.InvalidArgumentError, match=message.replace("'", r".?'")):
            task.evaluate(x, y, verbose=0)


def brute_force(start_logits, end_logits, allowed, max_tokens):
    best = (-np.inf, 0, 0)
    for start in np.flatnonzero(allowed):
        for end in np.flatnonzero(allowed):
            score = start_logits[start] + end_logits[end]
            if 0 <= end - start < max_tokens and score > best[0]:
                best = (score, start, end)
    return best


@pytest.mark.parametrize("max_tokens", [1, 4, 30, 100])
def test_the_best_span_is_that_of_brute_force(max_tokens):
    random = np.random.default_rng(max_tokens)
    starts, ends = random.normal(size=(2, 200, 40)).astype("float32")
    allowed = np.zeros((200, 40), bool)
    for row, (first, last) in enumerate(np.sort(random.integers(0, 40, (200, 2)), axis=1)):
        allowed[row, first : last + 1] = True
    found = [part.numpy() for part in best_spans(starts, ends, allowed, max_tokens)]
    for row in range(200):
        score, start, end = brute_force(starts[row], ends[row], allowed[row], max_tokens)
        assert (found[0][row], found[1][row]) == (start, end)
        assert found[2][row] == pytest.approx(score, rel=1e-6)


def test_spans_lie_in_the_second_text_and_not_on_its_end():
    task = made()
    ids = task.preprocessor(([*QUESTIONS, "tea"], [*TEXTS, ""]))
    tokens = ids["token_ids"].numpy()
    second = (ids["segment_ids"].numpy() == 1) & (tokens != task.tokenizer.sep_id)
    starts_at = []
    for place in range(16):
        # One place has the largest logits by far.
        outputs = tf.one_hot([place] * 5, 16, on_value=9.0)
        task.call = lambda *args, o=outputs, **kwargs: {"start_logits": o, "end_logits": o}
        answer = {name: value.numpy() for name, value in task.serve(ids).items()}
        starts_at.append(answer["start"] == place)
        assert (answer["start"] <= answer["end"]).all()
        assert second[np.arange(4), answer["start"][:4]].all()
        # No second text: the span of [CLS].
        assert answer["start"][4] == answer["end"][4] == 0
        assert answer["score"][4] == answer["null_score"][4]
    np.testing.assert_array_equal(np.array(starts_at).T[:4], second[:4])


def test_most_tokens_of_an_answer():
    task = made(max_answer_tokens=2)
    ids = task.preprocessor(([QUESTIONS[2]], [TEXTS[2]]))
    start, end = (tf.one_hot([place], 16, on_value=9.0) for place in (6, 9))
    task.call = lambda *args, **kwargs: {"start_logits": start, "end_logits": end}
    answer = task.serve(ids)
    assert int(answer["end"][0] - answer["start"][0]) < 2
    for wrong in (0, -1, 1.5, None):
        with pytest.raises(ValueError, match="`max_answer_tokens`"):
            made(max_answer_tokens=wrong)


def test_predictions_of_texts_are_those_of_ids():
    task = made()
    expected = task.predict(task.preprocessor(PAIRS), verbose=0)
    for form in (PAIRS, list(zip(*PAIRS, strict=True)), {"text_a": QUESTIONS, "text_b": TEXTS}):
        for name, logits in task.predict(form, batch_size=2, verbose=0).items():
            np.testing.assert_allclose(logits, expected[name], atol=1e-6)
    longest = kbz.TextPreprocessor(task.tokenizer, 16, padding="longest")
    other = tiny_head("question", task.encoder, preprocessor=longest)
    other.set_weights(task.get_weights())
    for name, logits in other.predict(PAIRS, batch_size=1, verbose=0).items():
        np.testing.assert_allclose(logits, expected[name], atol=1e-5)
    assert task.predict([], verbose=0)["start_logits"].shape[0] == 0
    with pytest.raises(ValueError, match="takes pairs of texts, and single texts were given"):
        task.predict(QUESTIONS)


@pytest.mark.parametrize(
    "y, message",
    [
        (None, "dict of `start_positions` and `end_positions`"),
        ([0, 1, 2, 3], "dict of `start_positions` and `end_positions`"),
        ({"start_positions": [0, 1, 2, 3]}, "dict of `start_positions` and `end_positions`"),
        (SPANS | {"end_positions": np.ones(4)}, "`end_positions` must be one whole number"),
        (SPANS | {"end_positions": np.ones((4, 2), int)}, "`end_positions` must be one whole"),
        (SPANS | {"end_positions": 3}, "`end_positions` must be one whole"),
    ],
)
def test_bad_targets(y, message):
    task = made()
    task.compile("sgd")
    ids = task.preprocessor(PAIRS)
    with pytest.raises(ValueError, match=message):
        task.fit(ids, y, verbose=0)
    with pytest.raises(ValueError, match=message):
        task.evaluate(ids, y, verbose=0)


def test_training_takes_ids():
    task = made()
    task.compile("sgd")
    with pytest.raises(ValueError, match=r"pass `task.preprocessor\(\(questions, texts\)\)`"):
        task.fit(PAIRS, SPANS, verbose=0)
    # Lists and columns are numbers as well.
    ids = task.preprocessor(PAIRS)
    expected = task.evaluate(ids, SPANS, verbose=0)
    lists = {name: column.tolist() for name, column in SPANS.items()}
    columns = {name: column[:, None].astype("int64") for name, column in SPANS.items()}
    rows = tf.data.Dataset.from_tensor_slices((ids, SPANS)).batch(3)
    texts = tf.data.Dataset.from_tensor_slices((PAIRS, SPANS)).batch(3)
    for x, y in ((ids, lists), (ids, columns), (rows, None), (texts, None)):
        assert task.evaluate(x, y, verbose=0) == pytest.approx(expected, abs=1e-5)
    with pytest.raises(ValueError, match="cannot be replaced"):
        task.compile("sgd", loss="mse")


def test_fixed_length_and_xla():
    encoder = tiny_encoder(sequence_length=12)
    x, y = batch_for("question")
    figures = []
    for jit_compile in (False, True):
        task = made(12, encoder=encoder)
        task.compile("sgd", jit_compile=jit_compile)
        figures.append(task.evaluate(x, y, verbose=0))
    assert figures[0] == pytest.approx(figures[1], abs=1e-5)
    assert task.predict(texts_for("question"), verbose=0)["end_logits"].shape == (3, 12)
