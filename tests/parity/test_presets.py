"""Folders go to `transformers` and come from it with equal outputs, for every head."""

import json
import logging

import keras
import numpy as np
import pytest
from checkpoint_files import Golden, write_hugging_face
from reference_weights import difference
from tiny import VOCABULARY

import keras_bert_zoo as kbz

REASON = "the `parity` extra is not installed"
torch = pytest.importorskip("torch", reason=REASON)
transformers = pytest.importorskip("transformers", reason=REASON)

LABELS = {0: "bad", 1: "good", 2: "fine"}
BOTH = {"id2label": LABELS, "label2id": {name: number for number, name in LABELS.items()}}
SIZES = {
    "vocab_size": len(VOCABULARY),
    "hidden_size": 20,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 33,
    "max_position_embeddings": 24,
}
# Hugging Face's class, ours, settings of its config, names of its outputs and of ours.
HEADS = {
    "pretraining": (
        "BertForPreTraining",
        kbz.Pretraining,
        {},
        {
            "prediction_logits": "masked_lm_logits",
            "seq_relationship_logits": "next_sentence_logits",
        },
    ),
    "masked_lm": ("BertForMaskedLM", kbz.MaskedLM, {}, {"logits": "masked_lm_logits"}),
    "left_to_right": (
        "BertLMHeadModel",
        kbz.MaskedLM,
        {"is_decoder": True},
        {"logits": "masked_lm_logits"},
    ),
    "classifier": (
        "BertForSequenceClassification",
        kbz.TextClassifier,
        BOTH | {"problem_type": "single_label_classification"},
        {"logits": None},
    ),
    "regression": (
        "BertForSequenceClassification",
        kbz.TextClassifier,
        {"num_labels": 1, "problem_type": "regression"},
        {"logits": None},
    ),
    "multi_label": (
        "BertForSequenceClassification",
        kbz.MultiLabelClassifier,
        BOTH | {"problem_type": "multi_label_classification"},
        {"logits": None},
    ),
    "tagger": (
        "BertForTokenClassification",
        kbz.TokenClassifier,
        BOTH | {"classifier_dropout": 0.3},
        {"logits": None},
    ),
    "qa": (
        "BertForQuestionAnswering",
        kbz.QuestionAnswering,
        {},
        {"start_logits": "start_logits", "end_logits": "end_logits"},
    ),
    "choice": ("BertForMultipleChoice", kbz.MultipleChoice, {}, {"logits": None}),
    "next": ("BertForNextSentencePrediction", kbz.NextSentence, {}, {"logits": None}),
    "embedder": (
        "BertModel",
        kbz.TextEmbedder,
        {},
        {"last_hidden_state": "sequence_output", "pooler_output": "pooled_output"},
    ),
}
WITHOUT_POOLER = ("masked_lm", "left_to_right", "tagger", "qa")


def random_model(name, seed=0, **settings):
    """A model of `transformers` in which no parameter is trivial."""
    config = transformers.BertConfig(**SIZES, **settings)
    model = getattr(transformers, name)(config).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(0.3 * torch.randn(parameter.shape, generator=generator))
    return model


def batch(choices=None):
    random = np.random.default_rng(3)
    shape = (3, 9) if choices is None else (3, choices, 9)
    ids = random.integers(5, len(VOCABULARY), shape).astype(np.int32)
    segments = random.integers(0, 2, shape).astype(np.int32)
    mask = np.ones(shape, np.int32)
    mask[0, ..., 7:] = 0
    return {"token_ids": ids, "segment_ids": segments, "padding_mask": mask}


def run_theirs(model, ids, names):
    with torch.no_grad():
        outputs = model(
            input_ids=torch.tensor(ids["token_ids"]).long(),
            token_type_ids=torch.tensor(ids["segment_ids"]).long(),
            attention_mask=torch.tensor(ids["padding_mask"]).long(),
        )
    return {name: outputs[name].numpy() for name in names}


def run_ours(task, ids, names):
    if isinstance(task, kbz.TextEmbedder):
        task = task.encoder
    if "masked_positions" in task.input:
        rows, length = ids["token_ids"].shape
        every = np.broadcast_to(np.arange(length, dtype=np.int32), (rows, length))
        ids = ids | {"masked_positions": every}
    outputs = task(ids)
    outputs = {n: outputs if ours is None else outputs[ours] for n, ours in names.items()}
    return {name: keras.ops.convert_to_numpy(value) for name, value in outputs.items()}


def check(task, model, names, kind):
    ids = batch(choices=3 if kind == "choice" else None)
    ours, theirs = run_ours(task, ids, names), run_theirs(model, ids, names)
    for name in names:
        assert difference(ours[name], theirs[name]) <= 1e-5, name


@pytest.mark.parametrize("kind", HEADS)
def test_from_transformers_and_back(kind, tmp_path, caplog, recwarn):
    name, ours, settings, names = HEADS[kind]
    model = random_model(name, **settings)
    model.save_pretrained(tmp_path / "theirs")

    task = ours.from_preset(tmp_path / "theirs")
    check(task, model, names, kind)
    missing = {path.split("/")[0] for path in task.load_report.missing}
    assert missing == ({"pooler"} if kind in WITHOUT_POOLER else set())
    assert task.load_report.unused == ()
    if "id2label" in settings:
        assert task.labels == list(LABELS.values())
    if kind == "regression":
        assert task.labels is None
    if kind == "tagger":
        assert task.dropout_rate == 0.3
    elif hasattr(task, "dropout_rate") and kind != "next":
        assert task.dropout_rate == model.config.hidden_dropout_prob

    task.save_to_preset(tmp_path / "ours")
    caplog.clear()
    with caplog.at_level(logging.WARNING, logger="transformers"):
        transformers.utils.logging.enable_propagation()
        again, told = getattr(transformers, name).from_pretrained(
            tmp_path / "ours", output_loading_info=True
        )
    assert not any(told.values()), told
    assert caplog.messages == []
    check(task, again.eval(), names, kind)
    before, after = model.state_dict(), again.state_dict()
    assert before.keys() == after.keys()
    for key, value in before.items():
        assert torch.equal(value, after[key]), key
    for key in (
        "id2label",
        "label2id",
        "problem_type",
        "hidden_act",
        "layer_norm_eps",
        "is_decoder",
    ):
        assert getattr(again.config, key) == getattr(model.config, key), key
    assert not [str(w.message) for w in recwarn if issubclass(w.category, UserWarning)]


@pytest.mark.parametrize("kind", HEADS)
def test_random_models_of_ours_go_to_transformers(kind, tmp_path):
    name, ours, settings, names = HEADS[kind]
    encoder = kbz.BertEncoder(
        kbz.EncoderConfig(**SIZES, is_decoder=settings.get("is_decoder", False))
    )
    labels = {"labels": list(LABELS.values())} if "id2label" in settings else {}
    preprocessor = kbz.TextPreprocessor(kbz.WordPieceTokenizer(VOCABULARY), 24)
    task = ours(encoder, preprocessor=preprocessor, **labels)
    random = np.random.default_rng(0)
    for weight in task.weights:
        weight.assign(0.3 * random.normal(size=weight.shape))
    task.save_to_preset(tmp_path / "model")
    model, told = getattr(transformers, name).from_pretrained(
        tmp_path / "model", output_loading_info=True
    )
    assert not any(told.values()), told
    check(task, model.eval(), names, kind)
    automatic = transformers.AutoModel.from_pretrained(tmp_path / "model")
    assert type(automatic).__name__ == "BertModel"
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "model")
    texts = ["What is the CAPITAL of France?", "tea, films!", ""]
    theirs = tokenizer(texts, padding="max_length", max_length=24, truncation=True)
    assert np.array_equal(theirs["input_ids"], preprocessor(texts)["token_ids"])
    assert np.array_equal(theirs["token_type_ids"], preprocessor(texts)["segment_ids"])
    assert np.array_equal(theirs["attention_mask"], preprocessor(texts)["padding_mask"])


def test_half_precision_as_transformers_stores_it(tmp_path):
    for dtype in (torch.float16, torch.bfloat16):
        model = random_model("BertModel").to(dtype)
        model.save_pretrained(tmp_path / str(dtype))
        encoder = kbz.BertEncoder.from_preset(tmp_path / str(dtype))
        check_encoder = run_ours(encoder, batch(), {"x": "sequence_output"})["x"]
        expected = run_theirs(model.float(), batch(), ["last_hidden_state"])["last_hidden_state"]
        assert difference(check_encoder, expected) <= 1e-5


@pytest.mark.parametrize("shards", [1, 5])
@pytest.mark.parametrize("safe", [True, False], ids=["safetensors", "bin"])
def test_shards_and_pickles(tmp_path, shards, safe):
    model = random_model("BertForPreTraining")
    if safe:
        size = sum(p.numel() for p in model.parameters()) * 4 // shards
        model.save_pretrained(tmp_path, max_shard_size=size + 1000)
        assert len(list(tmp_path.glob("*.safetensors"))) > (1 if shards > 1 else 0)
    else:
        model.config.architectures = ["BertForPreTraining"]
        model.config.save_pretrained(tmp_path)
        state = list(model.state_dict().items())
        names = [f"pytorch_model-{n + 1:05}-of-{shards:05}.bin" for n in range(shards)]
        names = ["pytorch_model.bin"] if shards == 1 else names
        weight_map = {}
        for n, name in enumerate(names):
            part = dict(state[n::shards])
            torch.save(part, tmp_path / name)
            weight_map |= dict.fromkeys(part, name)
        if shards > 1:
            index = {"metadata": {}, "weight_map": weight_map}
            (tmp_path / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    task = kbz.Pretraining.from_preset(tmp_path)
    check(task, model, HEADS["pretraining"][3], "pretraining")
    assert task.load_report.unused == ()


def test_a_table_of_its_own_is_refused(tmp_path):
    config = transformers.BertConfig(**SIZES, tie_word_embeddings=False)
    transformers.BertForMaskedLM(config).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="a table of its own"):
        kbz.MaskedLM.from_preset(tmp_path)


def test_the_golden_file_in_transformers(tmp_path):
    """Our writer of test folders writes what `transformers` reads."""
    golden = Golden()
    folder = write_hugging_face(tmp_path / "model", golden)
    _, told = transformers.BertForPreTraining.from_pretrained(folder, output_loading_info=True)
    assert not any(told.values()), told
