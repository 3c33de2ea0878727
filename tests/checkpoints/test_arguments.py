"""What callers ask of presets amiss, and models that are made in odd places."""

import json
import os

import keras
import numpy as np
import pytest
from checkpoint_files import Golden, write_google, write_hugging_face
from reference_weights import difference
from tiny import VOCABULARY, tiny_preprocessor
from tiny_tasks import LABELS, TASKS, batch_for, encoder, equal, trained

import keras_bert_zoo as kbz


@pytest.fixture
def folder(tmp_path):
    trained(TASKS["classifier"]()).save_to_preset(tmp_path / "model")
    return tmp_path / "model"


def change_config(folder, **values):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def test_names_that_no_argument_has(folder):
    for name in ("lables", "max_len", "lower_case"):
        with pytest.raises(TypeError, match=f"unexpected keyword argument '{name}'"):
            kbz.TextClassifier.from_preset(folder, **{name: 5})
    with pytest.raises(TypeError, match="'labels'"):
        kbz.MaskedLM.from_preset(folder, labels=["a", "b"])
    with pytest.raises(TypeError, match="'foo'"):
        kbz.BertEncoder.from_preset(folder, foo=5)


@pytest.mark.parametrize(
    "arguments, match",
    [
        ({"sequence_length": "8"}, "`sequence_length`"),
        ({"sequence_length": 0}, "`sequence_length`"),
        ({"sequence_length": 8.0}, "`sequence_length`"),
        ({"config_changes": 5}, "`config_changes`"),
        ({"preprocessor": 5}, "`preprocessor`"),
        ({"preprocessor": None, "lowercase": True}, "`preprocessor` was given, and lowercase"),
        ({"preprocessor": None, "vocabulary": VOCABULARY}, "vocabulary"),
        ({"labels": 5}, "`labels`"),
        ({"labels": [0, 1, 2]}, "names"),
    ],
    ids=str,
)
def test_arguments_of_the_wrong_kind(folder, arguments, match):
    with pytest.raises(ValueError, match=match):
        kbz.TextClassifier.from_preset(folder, **arguments)
    with pytest.raises(ValueError, match=r"\['x'\]"):
        kbz.TextClassifier.from_preset(["x"], load_weights=False)


def test_labels_may_come_one_by_one(folder):
    task = kbz.TextClassifier.from_preset(folder, labels=(label for label in LABELS))
    assert task.labels == LABELS
    assert task.load_report.missing == ()


def test_without_weights_the_labels_are_the_folders_too(folder):
    task = kbz.TextClassifier.from_preset(folder, load_weights=False)
    assert (task.labels, task.dropout_rate) == (LABELS, 0.25)
    change_config(folder, architectures=["BertForTokenClassification"])
    assert kbz.TokenClassifier.from_preset(folder, load_weights=False).labels == LABELS


def test_dropout_of_the_head_follows_a_change(folder):
    change_config(folder, classifier_dropout=None)
    task = kbz.TextClassifier.from_preset(folder, config_changes={"hidden_dropout_prob": 0.4})
    assert task.dropout_rate == task.encoder.config.hidden_dropout_prob == 0.4


@pytest.mark.parametrize(
    "values, match",
    [
        ({"architectures": 5}, "`architectures`"),
        ({"architectures": {"a": 1}}, "`architectures`"),
        ({"id2label": {"0": "a", "1": "b"}}, "names 2 labels, .* 3 outputs"),
        ({"id2label": {"0": "a", "00": "b", "1": "c"}}, "`id2label`"),
        ({"id2label": {"0": None, "1": "b", "2": "c"}}, "`id2label`"),
        ({"id2label": {"0": "a", "1": "a", "2": "c"}}, "Twice or more: a Pass `labels="),
        ({"id2label": {"0": "", "1": "a", "2": "c"}}, "one line of text"),
        ({"problem_type": "foo"}, "none of regression"),
        ({"problem_type": 5}, "none of regression"),
        ({"layer_norm_eps": 10**400}, "`layer_norm_eps` must be at most"),
        ({"hidden_dropout_prob": -(10**400)}, "`hidden_dropout_prob` must be at most"),
        ({"classifier_dropout": "x"}, "`classifier_dropout`"),
    ],
    ids=str,
)
def test_configs_that_tell_nonsense(folder, values, match):
    change_config(folder, **values)
    with pytest.raises(ValueError, match=match):
        kbz.TextClassifier.from_preset(folder)


def test_a_name_as_architecture(folder):
    change_config(folder, architectures="BertForSequenceClassification")
    assert kbz.TextClassifier.from_preset(folder).load_report.missing == ()


def test_given_labels_stand_in_for_unusable_ones(folder):
    change_config(folder, id2label={"0": "a", "1": "a", "2": "c"})
    task = kbz.TextClassifier.from_preset(folder, labels=["p", "q", "r"])
    assert task.load_report.missing == ()
    change_config(folder, id2label={"0": "LABEL_0", "1": "LABEL_1", "2": "LABEL_2"})
    with pytest.raises(ValueError, match="in another order"):
        kbz.TextClassifier.from_preset(folder, labels=["LABEL_2", "LABEL_1", "LABEL_0"])


def rewrite_weights(folder, change):
    from safetensors.numpy import load_file, save_file

    save_file(change(load_file(folder / "model.safetensors")), folder / "model.safetensors")


@pytest.mark.parametrize("lost", ["classifier.bias", "classifier.weight"])
def test_half_a_head(folder, lost):
    rewrite_weights(folder, lambda arrays: {k: v for k, v in arrays.items() if k != lost})
    with pytest.raises(ValueError, match="half a classifier"):
        kbz.TextClassifier.from_preset(folder)


def test_half_a_pooler(folder):
    lost = "bert.pooler.dense.bias"
    rewrite_weights(folder, lambda arrays: {k: v for k, v in arrays.items() if k != lost})
    with pytest.raises(ValueError, match=r"lacks weights .*pooler\.dense\.bias"):
        kbz.BertEncoder.from_preset(folder)


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_none(folder, number):
    def spoil(arrays):
        arrays["bert.encoder.layer.1.output.dense.weight"][2, 3] = number
        return arrays

    rewrite_weights(folder, spoil)
    with pytest.raises(ValueError, match=r"layer\.1\.output\.dense\.weight .* NaN or infinite"):
        kbz.BertEncoder.from_preset(folder)


@pytest.mark.parametrize("kind", [np.int32, np.int8, np.bool_])
def test_weights_that_are_no_floats(folder, kind):
    name = "bert.encoder.layer.0.attention.self.key.weight"
    rewrite_weights(folder, lambda arrays: arrays | {name: arrays[name].astype(kind)})
    with pytest.raises(ValueError, match=f"{name} holds .*, and weights are floats"):
        kbz.BertEncoder.from_preset(folder)


def test_more_blocks_than_the_config_tells_of(folder):
    change_config(folder, num_hidden_layers=1)
    with pytest.warns(UserWarning, match="has more blocks than the 1 "):
        kbz.BertEncoder.from_preset(folder)
    with pytest.warns(UserWarning, match="has more blocks than the 1 "):
        kbz.TextClassifier.from_preset(folder)


def test_fewer_blocks_on_purpose(folder, recwarn):
    kbz.TextClassifier.from_preset(folder, config_changes={"num_hidden_layers": 1})
    assert not [w for w in recwarn if issubclass(w.category, UserWarning)]


def test_more_positions_than_memory(folder):
    for how in ("copy", "interpolate"):
        with pytest.raises(ValueError, match="GiB"):
            kbz.BertEncoder.from_preset(
                folder,
                extend_positions=how,
                config_changes={"max_position_embeddings": 10**11},
            )
    with pytest.raises(ValueError, match="GiB"):
        kbz.BertEncoder.from_preset(
            folder, load_weights=False, config_changes={"num_hidden_layers": 10**6}
        )


@pytest.mark.parametrize("place", ["scope", "layer"])
def test_a_model_that_is_made_within_another(tmp_path, place):
    golden = Golden()
    folder = write_hugging_face(tmp_path / "model", golden)

    class Holder(keras.layers.Layer):
        def build(self, shape=None):
            self.encoder = kbz.BertEncoder.from_preset(folder)

    if place == "scope":
        with keras.name_scope("outer"):
            found = kbz.BertEncoder.from_preset(folder)
    else:
        holder = Holder(name="holder")
        holder.build()
        found = holder.encoder
    states = golden.outputs["hidden_states"]
    assert difference(found(golden.ids)["sequence_output"], states[-1]) <= 1e-5
    assert found.load_report.missing == ()
    found.save_to_preset(tmp_path / "again")
    again = kbz.BertEncoder.from_preset(tmp_path / "again")
    assert equal(again(golden.ids), found(golden.ids))


def test_a_large_table_is_assigned_in_parts(tmp_path, monkeypatch):
    from keras_bert_zoo.checkpoints import loading

    golden = Golden()
    folder = write_hugging_face(tmp_path / "model", golden)
    monkeypatch.setattr(loading, "_PART", 100)  # Of 21 columns, so that the last part is less.
    found = kbz.BertEncoder.from_preset(folder)
    table = golden.weights["bert.embeddings.word_embeddings.weight"]
    assert np.array_equal(found.token_embedding.embeddings, table)
    states = golden.outputs["hidden_states"]
    assert difference(found(golden.ids)["sequence_output"], states[-1]) <= 1e-5


def test_several_checkpoints_and_how_to_name_one(tmp_path):
    golden = Golden()
    folder = write_google(tmp_path / "model", golden, prefix="model.ckpt-10")
    write_google(folder, golden, prefix="model.ckpt-20")
    with pytest.raises(ValueError, match='the line: model_checkpoint_path: "model.ckpt-20"'):
        kbz.BertEncoder.from_preset(folder)
    (folder / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-20"\n')
    kbz.BertEncoder.from_preset(folder)


class TestNothingIsLost:
    def test_the_tokenizer_of_a_folder_that_is_replaced(self, folder):
        before = sorted(os.listdir(folder))
        task = kbz.TextClassifier.from_preset(folder, preprocessor=None)
        for model in (task, kbz.BertEncoder.from_preset(folder)):
            with pytest.raises(ValueError, match=r"holds a tokenizer \(special_tokens_map.json, "):
                model.save_to_preset(folder)
        assert sorted(os.listdir(folder)) == before
        other = kbz.WordPieceTokenizer(VOCABULARY)
        kbz.BertEncoder.from_preset(folder).save_to_preset(folder, tokenizer=other)

    @pytest.mark.parametrize("name", ["config.json", "vocab.txt"])
    def test_a_folder_of_something_else(self, tmp_path, name):
        (tmp_path / name).write_text("{}")
        with pytest.raises(ValueError, match="tokenizer|not one of a model"):
            encoder().save_to_preset(tmp_path)
        assert os.listdir(tmp_path) == [name]

    def test_a_foreign_file_in_a_folder_of_ours(self, tmp_path):
        task = kbz.TextEmbedder(encoder(), tiny_preprocessor())
        task.save_to_preset(tmp_path / "model")
        task.save_to_preset(tmp_path / "model")
        (tmp_path / "model" / "1_Pooling" / "thesis.txt").write_text("of years")
        with pytest.raises(ValueError, match="1_Pooling"):
            task.save_to_preset(tmp_path / "model")

    def test_home_is_found(self, tmp_path, monkeypatch):
        monkeypatch.setenv("HOME", str(tmp_path))
        encoder().save_to_preset("~/model")
        assert (tmp_path / "model" / "config.json").is_file()


def test_an_embedder_of_a_model_without_a_pooler(tmp_path, recwarn):
    trained(TASKS["masked"]()).save_to_preset(tmp_path / "masked")
    task = kbz.TextEmbedder.from_preset(tmp_path / "masked")
    assert not [w for w in recwarn if issubclass(w.category, UserWarning)]
    task.save_to_preset(tmp_path / "embedder")
    with pytest.warns(UserWarning, match="no weights for pooler"):
        kbz.BertEncoder.from_preset(tmp_path / "embedder")
    assert equal(
        task(batch_for(task)), kbz.TextEmbedder.from_preset(tmp_path / "embedder")(batch_for(task))
    )


def test_a_vocabulary_that_is_a_dead_link(folder):
    (folder / "vocab.txt").unlink()
    (folder / "vocab.txt").symlink_to("nowhere")
    with pytest.raises(ValueError, match="vocab.txt cannot be read"):
        kbz.TextClassifier.from_preset(folder)


def test_the_bias_may_be_stored_as_that_of_the_decoder(tmp_path):
    golden = Golden()
    weights = dict(golden.weights)
    weights["cls.predictions.decoder.bias"] = weights.pop("cls.predictions.bias")
    folder = write_hugging_face(tmp_path / "model", golden, weights)
    task = kbz.Pretraining.from_preset(folder, preprocessor=None)
    assert task.load_report.missing == task.load_report.unused == ()
    weights["cls.predictions.bias"] = weights["cls.predictions.decoder.bias"] + 1
    folder = write_hugging_face(tmp_path / "model", golden, weights)
    with pytest.raises(ValueError, match=r"a table of its own, cls\.predictions\.decoder\.bias"):
        kbz.Pretraining.from_preset(folder, preprocessor=None)
    report = kbz.BertEncoder.from_preset(folder).load_report
    assert "cls.predictions.decoder.bias" in report.unused


def test_what_the_checkpoint_lacks_is_drawn(folder):
    with pytest.warns(UserWarning, match="logits"):
        task = kbz.TextClassifier.from_preset(folder, labels=["x", "y"])
    kernel = np.array(next(w for w in task.weights if w.path == "logits/kernel"))
    assert 0 < np.abs(kernel).max() <= 2 * task.encoder.config.initializer_range + 1e-6
    assert kernel.all()
    keras.utils.set_random_seed(3)
    with pytest.warns(UserWarning, match="logits"):
        first = kbz.TextClassifier.from_preset(folder, labels=["x", "y"])
    keras.utils.set_random_seed(3)
    with pytest.warns(UserWarning, match="logits"):
        second = kbz.TextClassifier.from_preset(folder, labels=["x", "y"])
    assert equal(first(batch_for(first)), second(batch_for(second)))
