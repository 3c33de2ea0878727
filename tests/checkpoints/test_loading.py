"""Checkpoints of every layout give the golden models' outputs, and a report."""

import keras
import numpy as np
import pytest
from checkpoint_files import (
    Golden,
    garden_names,
    google_names,
    hugging_face_names,
    write_garden,
    write_google,
    write_hugging_face,
)
from reference_weights import difference

import keras_bert_zoo as kbz
from keras_bert_zoo.checkpoints.names import name_pairs


@pytest.fixture(params=["bert_gelu", "bert_gelu_new"], scope="module")
def golden(request):
    return Golden(request.param)


def pretraining(folder, **kwargs):
    return kbz.Pretraining.from_preset(folder, preprocessor=None, **kwargs)


def check_task(task, golden):
    outputs = task(golden.inputs)
    used = golden.targets["masked_weights"] > 0
    logits = keras.ops.convert_to_numpy(outputs["masked_lm_logits"])
    assert difference(logits[used], golden.outputs["masked_lm_logits"][used]) <= 1e-4
    ours = outputs["next_sentence_logits"]
    assert difference(ours, golden.outputs["next_sentence_logits"]) <= 1e-4


def check_encoder(encoder, golden, pooled=True):
    outputs = encoder(golden.ids)
    assert difference(outputs["sequence_output"], golden.outputs["hidden_states"][-1]) <= 1e-5
    if pooled:
        assert difference(outputs["pooled_output"], golden.outputs["pooled_output"]) <= 1e-5


def test_bc_k01_prefixes_and_names_of_norms(golden, tmp_path):
    """Also an old buffer of position ids, which is no weight."""
    outputs = []
    for prefix in ("bert.", ""):
        for old_norms in (False, True):
            weights = hugging_face_names(golden.weights, prefix, old_norms)
            rows = golden.config["max_position_embeddings"]
            weights[f"{prefix}embeddings.position_ids"] = np.arange(rows)[None]
            folder = write_hugging_face(tmp_path / f"{prefix}{old_norms}", golden, weights)
            encoder = kbz.BertEncoder.from_preset(folder)
            check_encoder(encoder, golden)
            outputs.append(encoder(golden.ids))
            report = encoder.load_report
            assert sorted(report.loaded) == sorted(w.path for w in encoder.weights)
            assert report.missing == ()
            assert sorted(report.unused) == sorted(n for n in weights if n.startswith("cls."))
            assert str(folder) in report.source
            task = pretraining(folder)
            check_task(task, golden)
            assert task.load_report.missing == task.load_report.unused == ()
    for other in outputs[1:]:
        for name in ("sequence_output", "pooled_output"):
            assert np.array_equal(outputs[0][name], other[name])


def test_a_wrapper_of_data_parallel_training(tmp_path):
    golden = Golden()
    weights = {f"module.{name}": value for name, value in golden.weights.items()}
    check_task(pretraining(write_hugging_face(tmp_path / "model", golden, weights)), golden)


@pytest.mark.parametrize("slots", [False, True], ids=["", "with slots"])
def test_a_google_folder(golden, tmp_path, slots):
    folder = write_google(tmp_path / "uncased_L-3_H-21_A-3", golden, slots=slots)
    if golden.config["layer_norm_eps"] != 1e-12:  # Their config has no such entry.
        changes = {"layer_norm_eps": golden.config["layer_norm_eps"]}
    else:
        changes = None
    task = pretraining(folder, config_changes=changes)
    check_task(task, golden)
    assert task.load_report.missing == task.load_report.unused == ()
    encoder = kbz.BertEncoder.from_preset(folder, config_changes=changes)
    check_encoder(encoder, golden)
    assert all(name.startswith("cls/") for name in encoder.load_report.unused)


def test_a_google_checkpoint_without_heads_or_pooler(tmp_path):
    golden = Golden()
    names = google_names(golden.weights)
    names = {k: v for k, v in names.items() if not k.startswith(("cls/", "bert/pooler"))}
    folder = write_google(tmp_path / "model", golden, names)
    with pytest.warns(UserWarning, match="no weights for pooler: it starts from random values"):
        encoder = kbz.BertEncoder.from_preset(folder)
    check_encoder(encoder, golden, pooled=False)
    assert encoder.load_report.missing == ("pooler/dense/kernel", "pooler/dense/bias")
    with pytest.warns(UserWarning, match="pooler, masked_lm_transform, masked_lm_bias, next_sent"):
        pretraining(folder)


def test_fine_tuned_heads_of_google_research(tmp_path):
    golden = Golden()
    width = golden.config["hidden_size"]
    random = np.random.default_rng(0)
    names = google_names(golden.weights)
    kernel, bias = random.normal(size=(3, width)), random.normal(size=3)
    span = random.normal(size=(2, width))
    names |= {
        "output_weights": kernel.astype(np.float32),
        "output_bias": bias.astype(np.float32),
        "cls/squad/output_weights": span.astype(np.float32),
        "cls/squad/output_bias": np.zeros(2, np.float32),
    }
    folder = write_google(tmp_path / "model", golden, names)
    task = kbz.TextClassifier.from_preset(folder, labels=["a", "b", "c"], preprocessor=None)
    expected = golden.outputs["pooled_output"] @ kernel.T + bias
    assert difference(task(golden.ids), expected.astype(np.float32)) <= 1e-5
    task = kbz.QuestionAnswering.from_preset(folder, preprocessor=None)
    expected = golden.outputs["hidden_states"][-1] @ span.T
    assert difference(task(golden.ids)["start_logits"], expected[..., 0].astype("float32")) <= 1e-5
    assert difference(task(golden.ids)["end_logits"], expected[..., 1].astype("float32")) <= 1e-5


@pytest.mark.parametrize("encoder", ["numbered", "named"])
@pytest.mark.parametrize(
    "root", ["encoder", "model", "model/encoder_network", "model/layer_with_weights-0"]
)
@pytest.mark.parametrize("old_output", [False, True])
def test_encoders_of_the_model_garden(tmp_path, encoder, root, old_output):
    golden = Golden()
    arrays = garden_names(golden, encoder, root, old_output)
    folder = write_garden(tmp_path / "model", golden, arrays)
    found = kbz.BertEncoder.from_preset(folder)
    check_encoder(found, golden)
    assert found.load_report.unused == ()


@pytest.mark.parametrize("heads", ["apart", "in the model"])
def test_pretraining_heads_of_the_model_garden(tmp_path, heads):
    """The table lies at the head alone; the pooler that was trained is the head's own."""
    golden = Golden()
    names = google_names(golden.weights)
    arrays = garden_names(golden, "named")
    table = arrays.pop("encoder/_embedding_layer/embeddings")
    pooler = {v: arrays[f"encoder/_pooler_layer/{v}"] for v in ("kernel", "bias")}
    for variable in pooler:
        arrays[f"encoder/_pooler_layer/{variable}"] = np.zeros_like(pooler[variable])
    masked_lm = "masked_lm" if heads == "apart" else "model/masked_lm"
    dense = (
        "next_sentence.pooler_dense" if heads == "apart" else "model/classification_heads/0/dense"
    )
    logits = "model/classification_heads/0/out_proj"
    transform = "cls/predictions/transform"
    arrays |= {
        f"{masked_lm}/embedding_table": table,
        f"{masked_lm}/dense/kernel": names[f"{transform}/dense/kernel"],
        f"{masked_lm}/dense/bias": names[f"{transform}/dense/bias"],
        f"{masked_lm}/layer_norm/gamma": names[f"{transform}/LayerNorm/gamma"],
        f"{masked_lm}/layer_norm/beta": names[f"{transform}/LayerNorm/beta"],
        f"{masked_lm}/output_bias.Sbias": names["cls/predictions/output_bias"],
        f"{dense}/kernel": pooler["kernel"],
        f"{dense}/bias": pooler["bias"],
        f"{logits}/kernel": names["cls/seq_relationship/output_weights"].T,
        f"{logits}/bias": names["cls/seq_relationship/output_bias"],
    }
    folder = write_garden(tmp_path / "model", golden, arrays)
    task = pretraining(folder)
    check_task(task, golden)
    assert task.load_report.missing == ()


def test_bc_k03_the_rows_of_the_table_are_those_of_the_file(tmp_path):
    golden = Golden()
    encoder = kbz.BertEncoder.from_preset(write_hugging_face(tmp_path / "model", golden))
    table = golden.weights["bert.embeddings.word_embeddings.weight"]
    assert np.array_equal(encoder.token_embedding(np.array([2, 5]))[0], table[2])


def test_bc_k05_every_norm_has_the_epsilon_of_the_config(tmp_path):
    golden = Golden("bert_gelu_new")  # Of 1e-3, which the outputs show, see `test_golden.py`.
    folder = write_hugging_face(tmp_path / "model", golden)
    for epsilon in (1e-12, 1e-5, 1e-3):
        task = pretraining(folder, config_changes={"layer_norm_eps": epsilon})
        norms = [
            layer
            for layer in task._flatten_layers()
            if isinstance(layer, keras.layers.LayerNormalization)
        ]
        assert len(norms) == 2 + 2 * golden.config["num_hidden_layers"]
        assert {norm.epsilon for norm in norms} == {epsilon}
    check_task(task, golden)


def test_stored_in_half_precision(tmp_path):
    import ml_dtypes

    golden = Golden()
    for dtype in (np.float16, ml_dtypes.bfloat16, np.float64):
        weights = {name: value.astype(dtype) for name, value in golden.weights.items()}
        encoder = kbz.BertEncoder.from_preset(
            write_hugging_face(tmp_path / np.dtype(dtype).name, golden, weights)
        )
        for weight in encoder.weights:
            assert weight.dtype == "float32"
        expected = golden.weights["bert.pooler.dense.weight"].astype(dtype).astype(np.float32).T
        found = next(w for w in encoder.weights if w.path == "pooler/dense/kernel")
        assert np.array_equal(found, expected)


def test_the_table_names_every_weight_of_the_golden_models_once():
    golden = Golden()
    layers = golden.config["num_hidden_layers"]
    for layout, names in (
        ("hugging_face", {name.removeprefix("bert.") for name in golden.weights}),
        ("google", {name.removeprefix("bert/") for name in google_names(golden.weights)}),
    ):
        pairs = [p for p in name_pairs(layout, layers) if p.part not in ("classifier", "span")]
        theirs = [name for pair in pairs for name in pair.theirs]
        assert sorted(theirs) == sorted(names)
        assert len({pair.ours for pair in pairs}) == len(pairs)


def test_fewer_blocks_than_the_checkpoint_has(tmp_path):
    golden = Golden()
    folder = write_hugging_face(tmp_path / "model", golden)
    encoder = kbz.BertEncoder.from_preset(
        folder, config_changes={"num_hidden_layers": 1}, output_hidden_states=True
    )
    state = encoder(golden.ids)["hidden_states"][1]
    assert difference(state, golden.outputs["hidden_states"][1]) <= 1e-5
    unused = [name for name in encoder.load_report.unused if ".layer." in name]
    assert len(unused) == 16 * (golden.config["num_hidden_layers"] - 1)


def test_weights_are_loaded_into_a_model_of_mixed_precision(tmp_path):
    golden = Golden()
    folder = write_hugging_face(tmp_path / "model", golden)
    encoder = kbz.BertEncoder.from_preset(folder, dtype="mixed_bfloat16")
    assert encoder(golden.ids)["sequence_output"].dtype == "bfloat16"
    table = golden.weights["bert.embeddings.word_embeddings.weight"]
    assert np.array_equal(encoder.token_embedding.embeddings, table)
