"""`QuestionAnswering.answer`, and a model that has learnt to answer, from file to file."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from tiny import VOCABULARY, WORDS, tiny_config, tiny_encoder, tiny_preprocessor
from tiny_heads import tiny_head

import keras_bert_zoo as kbz
from keras_bert_zoo.datasets.questions import (
    encode_questions,
    score_answers,
    tuned_null_threshold,
    write_predictions,
)
from keras_bert_zoo.datasets.squad import read_squad
from keras_bert_zoo.metrics.squad import read_gold, read_mapping, score_squad

FIELDS = {"text", "start", "end", "score", "probability"}


def made(length=16, seed=0, **settings):
    keras.utils.set_random_seed(seed)
    task = tiny_head("question", **({"preprocessor": tiny_preprocessor(length)} | settings))
    random = np.random.default_rng(seed)
    for weight in task.weights:
        weight.assign(random.normal(size=weight.shape, scale=0.4))
    return task


def random_texts(count, longest, seed=1):
    random = np.random.default_rng(seed)
    words = [*WORDS, "Tea", "FILMS", "Páris", "."]
    return ["  ".join(random.choice(words, random.integers(1, longest))) for _ in range(count)]


def test_a_text_that_fits_is_answered_as_by_an_export():
    task = made(max_answer_tokens=3)
    questions, contexts = random_texts(20, 4), random_texts(20, 9, seed=2)
    answers = task.answer(question=questions, context=contexts, batch_size=7)
    ids = task.preprocessor((questions, contexts))
    served = {name: value.numpy() for name, value in task.serve(ids).items()}
    assert len({answer["text"] for answer in answers}) > 5
    for row, (context, answer) in enumerate(zip(contexts, answers, strict=True)):
        assert set(answer) == FIELDS and 0 < answer["probability"] <= 1
        assert answer["text"] == context[answer["start"] : answer["end"]] != ""
        assert answer["score"] == pytest.approx(served["score"][row], abs=1e-4)
        spans = task.tokenizer.tokenize_with_spans(context)
        first = int(tf.argmax(ids["segment_ids"][row]))
        start, end = (served[name][row] - first for name in ("start", "end"))
        assert (spans.char_starts[start], spans.char_ends[end]) == (answer["start"], answer["end"])
    single = task.answer(questions[3], contexts[3])
    assert single == answers[3] | {
        name: pytest.approx(answers[3][name], abs=1e-5) for name in ("score", "probability")
    }
    assert json.loads(json.dumps(single)) == single


def test_a_long_text_is_read_through_windows():
    task = made()
    # Far off in a long text, where one row does not reach.
    context = "a of the . " * 30
    target = "film  cups"
    place = 200
    context = context[:place] + f" {target} " + context[place:]
    film, cup = (task.tokenizer.token_to_id(token) for token in ("film", "cup"))

    def call(x, *args, **kwargs):
        starts = tf.where(x["token_ids"] == film, 9.0, 0.0)
        ends = tf.where(x["token_ids"] == cup, 8.0, 0.0)
        return {"start_logits": starts, "end_logits": ends}

    task.call = call
    answer = task.answer(question="what ?", context=context, stride=4)
    assert answer["text"] == "film  cup" and context[answer["start"] :].startswith(target)
    assert answer["score"] == 17
    # A long question is cut, and leaves room.
    answer = task.answer(question="what " * 40, context=context, stride=3)
    assert answer["text"] == "film  cup"


def test_no_answer():
    task = made()
    questions, contexts = ["what is tea ?"] * 3, ["", "tea", "\u200b"]
    texts = [answer["text"] for answer in task.answer(questions, contexts)]
    assert texts == ["", "tea", ""]
    task.null_threshold = -1e9
    for answer in task.answer(questions, contexts):
        assert (answer["text"], answer["start"], answer["end"]) == ("", 0, 0)
        assert np.isfinite(answer["score"]) and 0 < answer["probability"] <= 1
    task.null_threshold = 1e9
    texts = [answer["text"] for answer in task.answer(questions, contexts)]
    assert texts == ["", "tea", ""]


def test_the_threshold_is_saved(tmp_path):
    task = made(null_threshold=-1.5)
    task.save(tmp_path / "task.keras")
    loaded = keras.saving.load_model(tmp_path / "task.keras")
    assert loaded.null_threshold == -1.5 and made().null_threshold is None
    pair = ["what ?"] * 4, random_texts(4, 30)
    for first, second in zip(loaded.answer(*pair), task.answer(*pair), strict=True):
        assert first["text"] == second["text"]
        assert first["score"] == pytest.approx(second["score"], abs=1e-4)


def test_an_encoder_of_one_length():
    task = made(encoder=tiny_encoder(sequence_length=16))
    free = made()
    free.set_weights(task.get_weights())
    for context in random_texts(3, 30):
        first, second = (t.answer("what ?", context, stride=4) for t in (task, free))
        assert first["text"] == second["text"]


@pytest.mark.parametrize(
    "question, context, message",
    [
        ("what ?", ["tea"], "two strings, or two lists of strings. Received `question`"),
        (["what ?"], "tea", "Received `context`: 'tea'"),
        (["what ?"], [3], r"Received `context`: \[3\]"),
        (None, ["tea"], "Received `question`: None"),
        (["what ?"], ["tea", "cup"], "1 questions and 2 passages"),
        ("what ?", "\ud800", "surrogate"),
    ],
)
def test_refusals(question, context, message):
    with pytest.raises(ValueError, match=message):
        made().answer(question, context)


def test_more_refusals():
    task = made()
    assert task.answer([], []) == []
    with pytest.raises(ValueError, match="must exceed `max_query_length`"):
        task.answer("what ?", "tea", max_query_length=64)
    with pytest.raises(ValueError, match="has no preprocessor"):
        made(preprocessor=None).answer("what ?", "tea")


def learnt(encoded, config, tokenizer, length, epochs, learning_rate):
    """A task that has been trained on the windows."""
    keras.utils.set_random_seed(0)
    batches = encoded.examples.training_batches(16)
    steps = epochs * int(batches.cardinality())
    task = kbz.QuestionAnswering(kbz.BertEncoder(config), kbz.TextPreprocessor(tokenizer, length))
    task.compile(kbz.adamw(learning_rate, steps, steps // 20), clip_norm=1.0)
    task.fit(batches, epochs=epochs, verbose=0)
    return task


def test_it_learns_a_file_of_2_0_with_chinese_characters(tmp_path):
    """Answers and none, over windows, from the file to the files of predictions."""
    random = np.random.default_rng(0)
    letters = "中国人大学北京上海茶杯好"
    vocabulary = [*VOCABULARY, *letters, "café"]
    paragraphs, gold_spans = [], {}
    for number in range(8):
        context = "".join(random.permutation(list(letters * 2))) + " Café tea."
        rows = []
        for word in ("tea", "cup", "film"):
            start = int(random.integers(0, len(context) - 12))
            answer = {"text": context[start : start + 2], "answer_start": start}
            impossible = word == "film"
            key = f"{number}-{word}"
            gold_spans[key] = "" if impossible else answer["text"]
            rows.append(
                {
                    "id": key,
                    "question": f"{word} {letters[number]} {word} ?",
                    "answers": [] if impossible else [answer],
                    "is_impossible": impossible,
                }
            )
        paragraphs.append({"context": context, "qas": rows})
    path = tmp_path / "train.json"
    content = {"version": "v2.0", "data": [{"paragraphs": paragraphs}]}
    path.write_text(json.dumps(content), encoding="utf-8")

    read, (gold, version) = read_squad(path), read_gold(path)
    tokenizer = kbz.WordPieceTokenizer(vocabulary)
    encoded = encode_questions(read, tokenizer, 24, 8, 8)
    assert len(encoded.windows) >= 2 * len(read) and not encoded.inexact and not encoded.outside
    config = tiny_config(
        vocab_size=len(vocabulary), hidden_size=48, intermediate_size=96,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    task = learnt(encoded, config, tokenizer, 24, 90, 5e-3)
    answers = encoded.answers(task, null=True)
    assert version == "2.0"
    task.null_threshold = tuned_null_threshold(gold, answers)
    scores = score_answers(gold, answers, task.null_threshold)
    assert scores["exact"] >= 95 and scores["NoAns_exact"] >= 95
    files = write_predictions(tmp_path, answers, task.null_threshold)
    predictions = read_mapping(files[0], str)
    assert score_squad(gold, predictions, version)["exact"] == pytest.approx(scores["exact"])
    told = task.answer(
        [question.question for question in read],
        [question.context for question in read],
        stride=8,
        max_query_length=8,
    )
    assert [answer["text"] for answer in told] == list(predictions.values())
    for question, answer in zip(read, told, strict=True):
        assert question.context[answer["start"] : answer["end"]] == answer["text"]


def test_it_learns_fifty_questions_of_xquad(shared_data):
    """About half a minute: the whole way on real texts, contexts cut into windows."""
    path = shared_data / "squad" / "xquad.en.json"
    tokenizer = kbz.WordPieceTokenizer(shared_data / "vocab/bert-base-uncased/vocab.txt")
    questions = read_squad(path).examples[:50]
    gold, _ = read_gold(path)
    encoded = encode_questions(questions, tokenizer, 160, 64, 40)
    assert len(encoded.windows) > len(questions)
    config = kbz.EncoderConfig(
        vocab_size=tokenizer.vocabulary_size, hidden_size=64, num_hidden_layers=2,
        num_attention_heads=4, intermediate_size=128, max_position_embeddings=160,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    task = learnt(encoded, config, tokenizer, 160, 50, 3e-3)
    answers = encoded.answers(task)
    scores = score_answers({q.id: gold[q.id] for q in questions}, answers)
    assert scores["exact_match"] >= 95 and scores["total"] == 50
    for question in questions:
        span = answers[question.id].best
        assert question.context[span.start : span.end] == span.text
