"""The script that pretrains, as users run it."""

import json
import os
import signal
import subprocess
import sys
import time

import keras
import numpy as np
import pytest
from conftest import ROOT
from scripts import run
from tiny import VOCABULARY, WORDS, tiny_config, tiny_encoder, tiny_preprocessor

import keras_bert_zoo as kbz


@pytest.fixture
def flags(tmp_path):
    rng = np.random.default_rng(0)
    for number in range(2):
        blocks = [
            "\n".join(" ".join(rng.choice(WORDS, rng.integers(3, 9))) for _ in range(8))
            for _ in range(30)
        ]
        (tmp_path / f"{number}.txt").write_text("\n\n".join(blocks) + "\n", encoding="utf-8")
    (tmp_path / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n", encoding="utf-8")
    config = tiny_config(vocab_size=7).to_dict()
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return [
        f"--input_files={tmp_path}/*.txt", f"--vocab_file={tmp_path}/vocab.txt",
        f"--config_file={tmp_path}/config.json", "--phases=16:0.75,24:0.25",
        "--num_train_steps=40", "--train_batch_size=8", "--learning_rate=0.01",
        "--eval_steps=20", "--save_steps=10", "--held_out_every=10", "--strategy=one",
    ]  # fmt: skip


def weights(folder):
    task = keras.saving.load_model(folder / "pretraining.keras")
    return [keras.ops.convert_to_numpy(weight) for weight in task.weights]


def test_two_phases_and_a_restart(tmp_path, flags):
    (tmp_path / "vocab.txt").rename(tmp_path / "vocabulary")  # Not one of the texts.
    flags[1] = f"--vocab_file={tmp_path}/vocabulary"
    whole, ended = tmp_path / "whole", tmp_path / "ended"
    told = run("pretrain.py", *flags, f"--output_dir={whole}", "--tensorboard")
    assert told["phases"] == [[16, 30], [24, 10]] and told["documents"] == 54
    curve = json.loads((whole / "metrics.json").read_text("utf-8"))["curve"]
    assert [row["step"] for row in curve] == [20, 40]
    assert curve[-1]["masked_lm_loss"] == told["held_out"]["masked_lm_loss"] < 3.4
    card = (whole / "README.md").read_text("utf-8")
    assert "30 with 16 tokens then 10 with 24" in card and "54 documents" in card
    assert list((whole / "tensorboard").rglob("events*"))
    assert (whole / "learning-curve.png").read_bytes().startswith(b"\x89PNG")
    serving = kbz.load_saved_model(whole / "saved_model").signatures["serving_default"]
    assert serving(text=np.array(["a [MASK] film"]))
    # Ended half-way, and run again.
    process = subprocess.Popen(
        [sys.executable, ROOT / "examples" / "pretrain.py", *flags, f"--output_dir={ended}"],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    while process.poll() is None and not (ended / "snapshots" / "step-00000010").exists():
        time.sleep(0.005)
    process.send_signal(signal.SIGTERM)
    assert process.wait() in (0, 143)
    run("pretrain.py", *flags, f"--output_dir={ended}")
    for a, b in zip(weights(whole), weights(ended), strict=True):
        np.testing.assert_array_equal(a, b)
    told = run("pretrain.py", *flags, f"--output_dir={ended}", "--learning_rate=1", check=False)
    assert "peak was 0.01 and is 1.0" in told


@pytest.mark.parametrize(
    "ablation",
    [
        ("--nonext_sentence", "--masking_unit=whole_word", "--optimizer=lamb"),
        ("--static_masks=10", "--mask_share=1", "--random_share=0", "--accumulation_steps=2"),
        ("--left_to_right", "--average_decay=0.9", "--precision=mixed_float16"),
    ],
)
def test_ablations(tmp_path, flags, ablation):
    (tmp_path / "texts").mkdir()
    (tmp_path / "0.txt").rename(tmp_path / "texts" / "0.txt")
    flags[0] = f"--input_files={tmp_path}/texts/*.txt"
    told = run("pretrain.py", *flags, f"--output_dir={tmp_path}/out", "--num_train_steps=20",
               *ablation)  # fmt: skip
    assert np.isfinite(told["held_out"]["loss"])
    half = "--precision=mixed_float16" in ablation
    assert told["precision"] == ("mixed_float16" if half else "float32")
    without = {"--nonext_sentence", "--left_to_right"} & {*ablation}
    assert ("next_sentence_accuracy" in told["held_out"]) == (not without)
    assert (tmp_path / "out" / "saved_model").exists() == ("--left_to_right" not in ablation)
    classifier = kbz.TextClassifier.from_preset(tmp_path / "out" / "preset", labels=["a", "b"])
    assert classifier.encoder.config.is_decoder == ("--left_to_right" in ablation)


def test_tokens_are_made_once(tmp_path, flags):
    flags += [f"--output_dir={tmp_path}/out", f"--cache_dir={tmp_path}/tokens"]
    told = run("pretrain.py", *flags, "--tokenize_only")
    assert told["documents"] == 54 and not (tmp_path / "out" / "pretraining.keras").exists()
    made = {path: path.stat().st_mtime_ns for path in (tmp_path / "tokens").rglob("*.tokens")}
    assert run("pretrain.py", *flags, "--num_train_steps=2")["tokens"] == told["tokens"]
    assert made == {path: path.stat().st_mtime_ns for path in made}
    # Other text is not gone on with.
    with open(tmp_path / "0.txt", "a", encoding="utf-8") as file:
        file.write("\na film\n")
    told = run("pretrain.py", *flags, "--num_train_steps=3", check=False)
    assert "corpus was" in told
    few = run("pretrain.py", *flags, "--tokenize_only", "--held_out_every=1000", check=False)
    assert "--held_out_every=1000" in few


def test_wrong_phases_are_told(tmp_path, flags):
    told = run("pretrain.py", *flags, f"--output_dir={tmp_path}/out", "--phases=16:0.5",
               check=False)  # fmt: skip
    assert "add up to 1" in told


def test_a_training_does_not_end_in_an_error_for_want_of_safetensors(tmp_path, monkeypatch, caplog):
    monkeypatch.syspath_prepend(ROOT / "examples")
    from pretraining_report import write_preset

    # Both names: a test before may have imported the part, and then the whole is not asked for.
    for name in ("safetensors", "safetensors.numpy"):
        monkeypatch.setitem(sys.modules, name, None)
    write_preset(tmp_path / "preset", kbz.MaskedLM(tiny_encoder(), tiny_preprocessor()))
    assert "keras-bert-zoo[hub]" in caplog.text and not (tmp_path / "preset").exists()
