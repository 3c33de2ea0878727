"""The script that fine-tunes taggers, as users run it."""

import functools
import json

import keras
import pytest
import scripts
from tiny import tiny_config, tiny_preprocessor

import keras_bert_zoo as kbz
from keras_bert_zoo.datasets.conll import read_conll, write_conll
from keras_bert_zoo.metrics.entities import read_columns, score_entities
from keras_bert_zoo.tasks.feature_tagger import FeatureTagger

WORDS = [
    ["paris", "is", "good", "\u200b", "."],
    ["what", "is", "new", "london", "?"],
    ["tea"],
    "the capital of france is paris . good films , bad teas".split(),
]
TAGS = [
    ["I-LOC", "O", "O", "O", "O"],
    ["O", "O", "I-LOC", "I-LOC", "O"],
    ["O"],
    ["O", "O", "O", "I-LOC", "O", "I-LOC", *["O"] * 6],
]


run = functools.partial(scripts.run, "finetune_tagger.py")


@pytest.fixture
def preset(tmp_path):
    keras.utils.set_random_seed(0)
    config = tiny_config(hidden_size=32, hidden_dropout_prob=0.0, initializer_range=0.1)
    kbz.TextEmbedder(kbz.BertEncoder(config), tiny_preprocessor()).save_to_preset(
        tmp_path / "preset"
    )
    return tmp_path / "preset"


@pytest.mark.parametrize("jit_compile", [False, True])
def test_splits_in_a_folder(tmp_path, preset, jit_compile):
    for split, last in (("train", None), ("dev", None), ("test", -1)):
        write_conll(tmp_path / f"{split}.txt", WORDS[:last], TAGS[:last])
    with open(tmp_path / "train.txt", "a", encoding="utf-8") as file:
        file.write("\ntea B-LOC O\n\n")
    with open(tmp_path / "dev.txt", "a", encoding="utf-8") as file:
        file.write("\ntea B-PER\n\n")
    out = tmp_path / "out"
    settings = ("--preset", preset, "--output_dir", out, "--data_dir", tmp_path)
    report = run(
        *settings, "--scheme=IOB1", "--num_train_epochs=30", "--train_batch_size=2",
        "--learning_rate=0.01", "--max_seq_length=10", "--do_predict", "--skip_bad_rows",
        "--label_weights=O=0.5", f"--jit_compile={jit_compile}",
    )  # fmt: skip
    assert report["skipped_rows"] == 2
    assert report["labels"] == ["O", "B-LOC", "I-LOC"]
    # The F1 is that of the words in the files, for the official scorer.
    for name, key, count in (("dev", "f1", 4), ("test", "test_f1", 3)):
        path = out / f"{name}-predictions-1.txt"
        gold, predicted = read_columns(path)
        assert [list(s.words) for s in read_conll(path)] == WORDS[:count]
        assert score_entities(gold, predicted)["f1"] == pytest.approx(report[key], abs=1e-9)
        assert score_entities(TAGS[:count], predicted)["f1"] == pytest.approx(report[key], abs=1e-9)
    metrics = json.loads((out / "metrics.json").read_text("utf-8"))
    best = max(row["f1"] for row in metrics["history"]["1"])
    assert best == report["f1"] > 0.9
    task = keras.saving.load_model(out / "tagger.keras")
    assert task.tag(WORDS) == read_columns(out / "dev-predictions-1.txt")[1]
    assert (out / "saved_model" / "assets" / "labels.txt").exists()
    said = run(*settings, check=False)
    assert "train.txt, line 28: 3 columns" in said


def test_one_file_and_a_frozen_encoder(tmp_path, preset):
    blocks = [
        "".join(f"{w}\t{t}\n" for w, t in zip(words, tags, strict=True)) + "\n-DOCSTART-\tO\n\n"
        for words, tags in zip(WORDS * 5, TAGS * 5, strict=True)
    ]
    for number in range(len(blocks)):
        blocks[number] = "good\tO\n" * (number + 1) + blocks[number]
    (tmp_path / "data.txt").write_text("".join(blocks), encoding="utf-8")
    out = tmp_path / "out"
    report = run(
        "--preset", preset, "--output_dir", out, "--data_file", tmp_path / "data.txt",
        "--feature_based", "--combine=mix", "--max_seq_length=16", "--layers=0,-1",
        "--num_train_epochs=1", "--seeds=1,2",
    )  # fmt: skip
    assert (report["train_sentences"], report["dev_sentences"]) == (16, 2)
    assert report["learning_rate"] == 1e-3
    assert len(report["spread"]["f1"]["values"]) == 2
    task = keras.saving.load_model(out / "tagger.keras")
    assert isinstance(task, FeatureTagger)
    assert (task.combine, task.feature_layers) == ("mix", [0, -1])
