"""The scripts that fine-tune relations and multiple choice, as users run them."""

import json

import numpy as np
import pytest
from scripts import run
from tiny import VOCABULARY, tiny_config

import keras_bert_zoo as kbz
from keras_bert_zoo.metrics.relations import read_answers, score_relations

WORDS = [*VOCABULARY, "$", "#"]


@pytest.fixture
def preset(tmp_path):
    config = tiny_config(vocab_size=len(WORDS), hidden_size=32, hidden_dropout_prob=0.0)
    preprocessor = kbz.TextPreprocessor(kbz.WordPieceTokenizer(WORDS), 16)
    kbz.TextEmbedder(kbz.BertEncoder(config), preprocessor).save_to_preset(tmp_path / "preset")
    return tmp_path / "preset"


RELATIONS = [
    ("<e1>tea</e1> of <e2>paris</e2>", "Entity-Origin(e1,e2)"),
    ("a <e1>cup</e1> of <e2>tea</e2> .", "Content-Container(e2,e1)"),
    ("the <e1>film</e1> is <e2>fine</e2>", "Other"),
]


def write_sentences(path, first, labels=True):
    blocks = []
    for number in range(12):
        text, label = RELATIONS[number % 3]
        block = [f'{first + number}\t"{text}"', *([label, "Comment:", ""] if labels else [])]
        blocks += block
    path.write_text("\r\n".join([*blocks, ""]), encoding="utf-8")


SETTINGS = ("--max_seq_length=16", "--train_batch_size=4", "--learning_rate=0.01")


def test_relations(tmp_path, preset):
    write_sentences(tmp_path / "TRAIN_FILE.TXT", 1)
    write_sentences(tmp_path / "TEST_FILE_FULL.TXT", 8001)
    write_sentences(tmp_path / "TEST_FILE.TXT", 8001, labels=False)
    out = tmp_path / "out"
    told = run("finetune_relation.py", "--preset", preset, "--output_dir", out, "--data_dir",
               tmp_path, *SETTINGS, "--num_train_epochs=8", "--do_lower_case")  # fmt: skip
    proposed, key = (read_answers(out / f"{n}.txt") for n in ("proposed_answers", "answer_key"))
    assert list(key) == list(range(8001, 8013))
    assert told["macro_f1"] == pytest.approx(score_relations(proposed, key)["macro_f1"])
    assert told["macro_f1"] == 100 and told["markers"] and told["train_examples"] == 12
    history = json.loads((out / "metrics.json").read_text("utf-8"))["history"]["1"]
    assert [row["epochs"] for row in history] == list(range(1, 9))
    assert "macro-averaged F1 = 100.00%" in (out / "report.txt").read_text("utf-8")
    serving = kbz.load_saved_model(out / "saved_model").signatures["serving_default"]
    answer = serving(
        text=np.array(["a cup of tea ."]),
        **{
            name: np.array([value], np.int32)
            for name, value in zip(
                ("entity_1_start", "entity_1_end", "entity_2_start", "entity_2_end"),
                (2, 5, 9, 12),
                strict=True,
            )
        },
    )
    assert answer["label"].numpy().tolist() == [b"Content-Container(e2,e1)"]
    # The model again, on sentences without labels.
    again = tmp_path / "again"
    run("finetune_relation.py", "--preset", out / "relation.keras", "--output_dir", again,
        "--nodo_train", "--test_file", tmp_path / "TEST_FILE.TXT", "--noexport")  # fmt: skip
    assert read_answers(again / "proposed_answers.txt") == proposed
    assert not (again / "answer_key.txt").exists()


def test_ablated_relations_with_held_out_sentences(tmp_path, preset):
    write_sentences(tmp_path / "TRAIN_FILE.TXT", 1)
    write_sentences(tmp_path / "TEST_FILE.TXT", 8001, labels=False)
    out = tmp_path / "out"
    flags = ("--preset", preset, "--output_dir", out, "--data_dir", tmp_path, *SETTINGS,
             "--num_train_epochs=1", "--test_file", tmp_path / "TEST_FILE.TXT",
             "--do_lower_case")  # fmt: skip
    told = run("finetune_relation.py", *flags, "--nomarkers", "--noentity_vectors",
               "--held_out_examples=3", "--noexport")  # fmt: skip
    assert (told["train_examples"], told["held_out_examples"]) == (9, 3)
    assert "held_out_macro_f1" in told and not told["markers"] and not told["entity_vectors"]
    assert len(read_answers(out / "proposed_answers.txt")) == 12
    assert "--held_out_examples" in run("finetune_relation.py", *flags, check=False)


def test_multiple_choice(tmp_path, preset):
    rows = [
        ("a cup of", ["tea", "film", "paris"], "A"),
        ("what a", ["paris", "film", "is", "the"], "2"),
        ("the capital", ["good", "tea", "of france"], "C"),
    ]
    lines = [",".join([q, *c, *[""] * (4 - len(c)), a]) for q, c, a in rows]
    (tmp_path / "arc.csv").write_text("\n".join([*lines, "what,,,,,1"]) + "\n", encoding="utf-8")
    out = tmp_path / "out"
    flags = ("--preset", preset, "--output_dir", out, "--format=arc", "--dev_file",
             tmp_path / "arc.csv", "--train_file", tmp_path / "arc.csv", *SETTINGS,
             "--do_lower_case")  # fmt: skip
    assert "line 4" in run("finetune_multiple_choice.py", *flags, check=False)
    told = run("finetune_multiple_choice.py", *flags, "--skip_bad_rows", "--num_train_epochs=25")
    assert (told["accuracy"], told["skipped_rows"], told["dev_examples"]) == (100, 2, 3)
    predicted = [json.loads(x) for x in (out / "predictions.jsonl").read_text("utf-8").splitlines()]
    assert [row["choice"] for row in predicted] == [0, 1, 2]
    assert [len(row["probabilities"]) for row in predicted] == [3, 4, 3]
    serving = kbz.load_saved_model(out / "saved_model").signatures["serving_default"]
    choices = np.array([["tea", "film", "paris"]])
    answer = serving(text_a=np.array(["a cup of"]), text_b=choices)
    assert answer["choice"].numpy().tolist() == [0]
