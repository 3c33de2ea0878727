"""The script that fine-tunes the answering of questions, as users run it."""

import functools
import json

import keras
import pytest
import scripts
from tiny import tiny_config, tiny_preprocessor

import keras_bert_zoo as kbz
from keras_bert_zoo.metrics.squad import read_gold, read_mapping, score_squad

CONTEXTS = ["Tea is fine .", "the film is bad .", "paris is the capital of france !"]


run = functools.partial(scripts.run, "finetune_qa.py")


@pytest.fixture
def preset(tmp_path):
    encoder = kbz.BertEncoder(tiny_config(hidden_size=32, hidden_dropout_prob=0.0))
    kbz.TextEmbedder(encoder, tiny_preprocessor(24)).save_to_preset(tmp_path / "preset")
    return tmp_path / "preset"


def write(path, version, answers=True):
    paragraphs = []
    for number, context in enumerate(CONTEXTS):
        first = context.split()[0]
        row = {"id": f"{number}-a", "question": "what is the film ?"}
        if answers:
            row["answers"] = [{"text": first, "answer_start": 0}]
        rows = [row]
        if version == "v2.0":
            rows.append(
                {"id": f"{number}-b", "question": "london !", "answers": [], "is_impossible": True}
            )
        paragraphs.append({"context": context, "qas": rows})
    content = {"version": version, "data": [{"title": "", "paragraphs": paragraphs}]}
    path.write_text(json.dumps(content), encoding="utf-8")


SETTINGS = (
    "--max_seq_length=20", "--max_query_length=8", "--doc_stride=4", "--train_batch_size=2",
    "--learning_rate=0.01",
)  # fmt: skip


def test_version_2(tmp_path, preset):
    for split in ("train", "dev"):
        write(tmp_path / f"{split}-v2.0.json", "v2.0")
    out = tmp_path / "out"
    told = run("--preset", preset, "--output_dir", out, "--data_dir", tmp_path, *SETTINGS,
               "--version_2_with_negative", "--num_train_epochs=12", "--do_lower_case")  # fmt: skip
    assert told["task"] == "SQuAD 2.0" and told["dev_questions"] == 6
    gold, version = read_gold(tmp_path / "dev-v2.0.json")
    predictions = read_mapping(out / "predictions.json", str)
    odds = read_mapping(out / "null_odds.json", float)
    assert told["f1"] == pytest.approx(score_squad(gold, predictions, version)["f1"]) and told["f1"]
    threshold = told["null_score_diff_threshold"]
    for key, text in predictions.items():
        assert bool(text) == (odds[key] <= threshold)
    n_best = json.loads((out / "nbest_predictions.json").read_text("utf-8"))
    assert all(sum(row["probability"] for row in rows) == pytest.approx(1)
               for rows in n_best.values())  # fmt: skip
    metrics = json.loads((out / "metrics.json").read_text("utf-8"))
    history = metrics["history"]["1"]
    assert len(history) == 12 and max(row["f1"] for row in history) == pytest.approx(told["f1"])
    assert history[-1]["loss"] < history[0]["loss"]

    # The model that was written gives the same answers, and without training too.
    assert (out / "saved_model" / "saved_model.pb").exists()
    loaded = keras.saving.load_model(out / "question_answering.keras")
    assert loaded.null_threshold == pytest.approx(threshold)
    answer = loaded.answer("what is the film ?", CONTEXTS[0], stride=4, max_query_length=8)
    assert answer["text"] == predictions["0-a"]
    loaded.save_to_preset(tmp_path / "tuned")
    again = run("--preset", tmp_path / "tuned", "--output_dir", tmp_path / "again", *SETTINGS,
                "--predict_file", tmp_path / "dev-v2.0.json", "--version_2_with_negative",
                "--nodo_train", "--noexport",
                f"--null_score_diff_threshold={threshold}")  # fmt: skip
    assert again["f1"] == pytest.approx(told["f1"])
    assert read_mapping(tmp_path / "again" / "predictions.json", str) == predictions


def test_version_1_over_seeds_and_a_file_without_answers(tmp_path, preset):
    for split in ("train", "dev"):
        write(tmp_path / f"{split}-v1.1.json", "1.1")
    out = tmp_path / "out"
    told = run("--preset", preset, "--output_dir", out, "--data_dir", tmp_path, *SETTINGS,
               "--num_train_epochs=1", "--seeds=1,2", "--noexport")  # fmt: skip
    assert told["task"] == "SQuAD 1.1" and told["seeds"] == [1, 2]
    gold, _ = read_gold(tmp_path / "dev-v1.1.json")
    scores = [
        score_squad(gold, read_mapping(out / f"seed-{seed}" / "predictions.json", str))["f1"]
        for seed in (1, 2)
    ]
    assert told["spread"]["f1"]["values"] == pytest.approx(scores)
    assert not (out / "seed-1" / "null_odds.json").exists()

    write(tmp_path / "test.json", "1.1", answers=False)
    said = run("--preset", preset, "--output_dir", out, "--data_dir", tmp_path, *SETTINGS,
               "--predict_file", tmp_path / "test.json", check=False)  # fmt: skip
    assert "test.json has no answers for training" in said
    run("--preset", preset, "--output_dir", out, "--nodo_train", *SETTINGS,
        "--predict_file", tmp_path / "test.json", "--noexport")  # fmt: skip
    texts = read_mapping(out / "predictions.json", str)
    assert len(texts) == 3
    assert all(texts[f"{n}-a"] in context for n, context in enumerate(CONTEXTS))


def test_questions_without_answer_need_the_flag(tmp_path, preset):
    write(tmp_path / "dev.json", "v2.0")
    said = run("--preset", preset, "--output_dir", tmp_path / "out", *SETTINGS, "--nodo_train",
               "--predict_file", tmp_path / "dev.json", check=False)  # fmt: skip
    assert "has questions without answer: --version_2_with_negative" in said
