"""The scripts that convert checkpoints, extract features and judge similarity, as users do."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from checkpoint_files import Golden, google_names, write_google
from scripts import run
from tiny import VOCABULARY, tiny_encoder, tiny_preprocessor

import keras_bert_zoo as kbz

TEXTS = ["a good film", "", "What is the capital of France?", "tea  ", "good film " * 30]


@pytest.fixture
def embedder(tmp_path):
    task = kbz.TextEmbedder(tiny_encoder(), tiny_preprocessor(), pooling="mean", normalize=False)
    for weight in task.weights:
        weight.assign(tf.random.stateless_normal(weight.shape, (1, 2), stddev=0.3))
    task.save_to_preset(tmp_path / "model")
    return task


def google_folder(tmp_path):
    """A Google checkpoint with all heads, and a vocabulary."""
    golden = Golden()
    tokens = [*VOCABULARY, *(f"token{n}" for n in range(golden.config["vocab_size"]))]
    folder = write_google(tmp_path / "uncased_L-3_H-21_A-3", golden)
    vocabulary = "\n".join(tokens[: golden.config["vocab_size"]])
    (folder / "vocab.txt").write_text(vocabulary, encoding="utf-8")
    return golden, folder


def test_a_google_checkpoint_becomes_each_format(tmp_path):
    golden, source = google_folder(tmp_path)
    outputs = []
    for form, name in (("hf", "hf"), ("keras", "task.keras"), ("saved_model", "saved")):
        answer = run("convert_checkpoint.py", "--source", source, "--target", tmp_path / name,
                     "--format", form)  # fmt: skip
        assert answer["task"] == "Pretraining"
        assert answer["missing"] == answer["unused"] == []
    tasks = (
        kbz.Pretraining.from_preset(tmp_path / "hf"),
        keras.models.load_model(tmp_path / "task.keras"),
    )
    for task in tasks:
        outputs.append(task(golden.inputs)["next_sentence_logits"])
        expected = golden.outputs["next_sentence_logits"]
        assert np.allclose(outputs[-1], expected, atol=1e-5)
        assert task.tokenizer.vocabulary[: len(VOCABULARY)] == VOCABULARY
    serving = kbz.load_saved_model(tmp_path / "saved").signatures["serving_default"]
    assert serving(text=tf.constant(["a [MASK] film"]))["tokens"].shape == (1, 1, 5)


def test_an_encoder_without_heads(tmp_path):
    golden = Golden()
    names = {k: v for k, v in google_names(golden.weights).items() if not k.startswith("cls/")}
    source = write_google(tmp_path / "encoder", golden, names)
    answer = run("convert_checkpoint.py", "--source", source, "--target", tmp_path / "hf",
                 "--format=hf")  # fmt: skip
    assert answer["task"] == "BertEncoder"
    assert sorted(p.name for p in (tmp_path / "hf").iterdir()) == [
        "config.json",
        "model.safetensors",
    ]
    said = run("convert_checkpoint.py", "--source", source, "--target", tmp_path / "x",
               "--format=keras", check=False)  # fmt: skip
    assert "--target must end in .keras" in said


@pytest.mark.parametrize("form", ["npz", "tsv"])
def test_features_of_lines(tmp_path, embedder, form):
    source = tmp_path / "texts.txt"
    source.write_bytes("\n".join(TEXTS).encode() + b"\r\n")
    target = tmp_path / "out" / f"vectors.{form}"
    answer = run("extract_features.py", "--preset", tmp_path / "model", "--input_file", source,
                 "--output_file", target, "--layers=-1,0", "--pooling=max",
                 "--batch_size=2")  # fmt: skip
    assert answer["texts"] == len(TEXTS)
    assert answer["width"] == 32
    if form == "npz":
        with np.load(target) as file:
            vectors = file["vectors"]
            assert file["layers"].tolist() == [-1, 0]
            assert str(file["pooling"]) == "max"
    else:
        vectors = np.loadtxt(target, delimiter="\t")
    assert [p.name for p in target.parent.iterdir()] == [target.name]
    kinds = {"layers": [-1, 0], "pooling": "max", "normalize": False}
    expected = kbz.TextEmbedder.from_preset(tmp_path / "model", **kinds).embed(TEXTS)
    assert vectors.shape == expected.shape
    assert np.allclose(vectors, expected, atol=1e-5)


def test_features_of_bad_files(tmp_path, embedder):
    source = tmp_path / "texts.txt"
    source.write_bytes(b"good\n\xff\xfe film\n")
    flags = ("--preset", tmp_path / "model", "--input_file", source, "--output_file")
    said = run("extract_features.py", *flags, tmp_path / "x.npz", check=False)
    assert f"{source}, line 2: not UTF-8" in said
    source.write_bytes(b"good\n")
    said = run("extract_features.py", *flags, tmp_path / "x.json", check=False)
    assert "must be a file that ends in .npz or .tsv" in said
    source.write_bytes("\ufeff".encode())
    assert run("extract_features.py", *flags, tmp_path / "none.tsv")["texts"] == 0
    assert (tmp_path / "none.tsv").read_bytes() == b""
    assert not list(tmp_path.glob("*x.*"))


def test_similarity(tmp_path, embedder):
    rows = [("a good film", "a good film", 5.0), ("tea", "what is france", 0.5),
            ("a cup of tea", "tea", 3.0), ('the "film', "good", 2.0)]  # fmt: skip
    plain = tmp_path / "plain.tsv"
    lines = [f"main\tx\ty\t1\t{score}\t{a}\t{b}" for a, b, score in rows]
    plain.write_text("\n".join(lines) + "\n", encoding="utf-8")
    answer = run("evaluate_similarity.py", "--preset", tmp_path / "model", "--sts_tsv", plain)
    vectors = [embedder.embed([row[place] for row in rows]) for place in (0, 1)]
    vectors = [v / np.linalg.norm(v, axis=1, keepdims=True) for v in vectors]
    cosines = (vectors[0] * vectors[1]).sum(axis=1)
    order = np.argsort(np.argsort(cosines)) - np.argsort(np.argsort([5.0, 0.5, 3.0, 2.0]))
    assert answer["spearman"] == pytest.approx(100 * (1 - 6 * (order**2).sum() / 60), abs=1e-3)
    assert answer["pairs"] == 4
    assert answer["texts_per_second"] > 0
    named = tmp_path / "named.tsv"
    lines = ["index\tsentence1\tsentence2\tscore"]
    lines += [f"{n}\t{a}\t{b}\t{score}" for n, (a, b, score) in enumerate(rows)]
    named.write_text("\n".join(lines) + "\n", encoding="utf-8")
    again = run("evaluate_similarity.py", "--preset", tmp_path / "model", "--sts_tsv", named)
    assert again["spearman"] == answer["spearman"]
    plain.write_text("main\tx\ty\t1\tfive\ta\tb\n", encoding="utf-8")
    said = run("evaluate_similarity.py", "--preset", tmp_path / "model", "--sts_tsv", plain,
               check=False)  # fmt: skip
    assert f"{plain}, line 1: a score is needed in column 5" in said
