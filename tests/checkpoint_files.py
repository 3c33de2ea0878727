"""Writes the golden models of `tests/golden` as the checkpoints that others write.

The names are spelt out here once more, by the rules that the originals follow, so that the table
of the package is held against something else.
"""

import json
import pathlib
import re

import numpy as np
import tensorflow as tf

FOLDER = pathlib.Path(__file__).resolve().parent / "golden"


class Golden:
    """A golden file: `config` as a dict, and dicts of arrays by name."""

    def __init__(self, name="bert_gelu"):
        with np.load(FOLDER / f"{name}.npz") as file:
            values = {key: file[key] for key in file}
        self.config = json.loads(str(values["config"]))
        for part in ("weights", "inputs", "targets", "outputs"):
            found = {k.split("/", 1)[1]: v for k, v in values.items() if k.startswith(f"{part}/")}
            setattr(self, part, found)

    @property
    def ids(self):
        return {key: value for key, value in self.inputs.items() if key != "masked_positions"}


def write_config(folder, config, name="config.json"):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(json.dumps(config), encoding="utf-8")


def hugging_face_names(weights, prefix="bert.", old_norms=False, without=()):
    """The weights under the names of some Hugging Face file or other."""
    found = {}
    for name, value in weights.items():
        if any(part in name for part in without):
            continue
        name = prefix + name.removeprefix("bert.") if name.startswith("bert.") else name
        if old_norms:
            name = name.replace("LayerNorm.weight", "LayerNorm.gamma")
            name = name.replace("LayerNorm.bias", "LayerNorm.beta")
        found[name] = value
    return found


def write_hugging_face(folder, golden, weights=None, config=None):
    """A folder with `config.json` and `model.safetensors`."""
    from safetensors.numpy import save_file

    write_config(folder, golden.config if config is None else config)
    weights = golden.weights if weights is None else weights
    save_file(
        {name: np.ascontiguousarray(value) for name, value in weights.items()},
        folder / "model.safetensors",
    )
    return folder


def google_names(weights):
    """The weights as google-research/bert names and lays them out."""
    found = {}
    for name, value in weights.items():
        matrix = value.ndim == 2 and "embeddings.weight" not in name
        google = re.sub(r"layer\.(\d+)", r"layer_\1", name)
        if name.startswith("cls.seq_relationship."):
            google = google.replace("weight", "output_weights").replace("bias", "output_bias")
            matrix = False
        google = google.replace("cls.predictions.bias", "cls.predictions.output_bias")
        google = google.replace("_embeddings.weight", "_embeddings")
        google = google.replace("LayerNorm.weight", "LayerNorm.gamma")
        google = google.replace("LayerNorm.bias", "LayerNorm.beta")
        google = google.replace("dense.weight", "dense.kernel")
        google = re.sub(r"(query|key|value)\.weight", r"\1.kernel", google)
        found[google.replace(".", "/")] = value.T if matrix else value
    return found


def write_google(folder, golden, weights=None, slots=True, prefix="bert_model.ckpt"):
    """A TF1 checkpoint, with the slots of an optimizer that were never stripped."""
    write_config(
        folder, {k: v for k, v in golden.config.items() if k in _GOOGLE_KEYS}, "bert_config.json"
    )
    arrays = dict(google_names(golden.weights) if weights is None else weights)
    if slots:
        random = np.random.default_rng(0)
        for name in list(arrays):
            for slot in ("adam_m", "adam_v"):
                noise = random.normal(size=arrays[name].shape).astype(np.float32)
                arrays[f"{name}/{slot}"] = noise
        arrays["global_step"] = np.int64(1000)
    path = str(folder / prefix)
    tf.raw_ops.SaveV2(
        prefix=path,
        tensor_names=list(arrays),
        shape_and_slices=[""] * len(arrays),
        tensors=[tf.constant(value) for value in arrays.values()],
    )
    return folder


_GOOGLE_KEYS = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "hidden_act",
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "max_position_embeddings",
    "type_vocab_size",
    "initializer_range",
)

_GARDEN_NUMBERED = {
    "bert/embeddings/word_embeddings": "layer_with_weights-0/embeddings",
    "bert/embeddings/position_embeddings": "layer_with_weights-1/embeddings",
    "bert/embeddings/token_type_embeddings": "layer_with_weights-2/embeddings",
    "bert/embeddings/LayerNorm": "layer_with_weights-3",
    "bert/pooler/dense": "layer_with_weights-{last}",
}
_GARDEN_NAMED = {
    "bert/embeddings/word_embeddings": "_embedding_layer/embeddings",
    "bert/embeddings/position_embeddings": "_position_embedding_layer/embeddings",
    "bert/embeddings/token_type_embeddings": "_type_embedding_layer/embeddings",
    "bert/embeddings/LayerNorm": "_embedding_norm_layer",
    "bert/pooler/dense": "_pooler_layer",
}
_GARDEN_BLOCK = {
    "attention/self/query": "_attention_layer/_query_dense",
    "attention/self/key": "_attention_layer/_key_dense",
    "attention/self/value": "_attention_layer/_value_dense",
    "attention/output/dense": "_attention_layer/_output_dense",
    "attention/output/LayerNorm": "_attention_layer_norm",
    "intermediate/dense": "_intermediate_dense",
    "output/dense": "_output_dense",
    "output/LayerNorm": "_output_layer_norm",
}


def garden_names(golden, encoder="numbered", root="encoder", old_output=False):
    """The encoder's weights by the keys of TF Model Garden, in its layout."""
    heads = golden.config["num_attention_heads"]
    width = golden.config["hidden_size"] // heads
    layers = golden.config["num_hidden_layers"]
    table = _GARDEN_NUMBERED if encoder == "numbered" else _GARDEN_NAMED
    found = {}
    for name, value in google_names(golden.weights).items():
        if name.startswith("cls/"):
            continue
        block = re.fullmatch(r"bert/encoder/layer_(\d+)/(.+)/(\w+)", name)
        if block:
            n, layer, variable = block.groups()
            start = (
                f"layer_with_weights-{4 + int(n)}"
                if encoder == "numbered"
                else (f"_transformer_layers/{n}")
            )
            layer = _GARDEN_BLOCK[layer]
            if "_attention_layer/" in layer and "_output" not in layer:
                value = value.reshape(*value.shape[:-1], heads, width)
            elif layer.endswith("_attention_layer/_output_dense"):
                if variable == "kernel":
                    value = value.reshape(heads, width, -1)
                if old_output:
                    layer = "_attention_output_dense"
            key = f"{start}/{layer}/{variable}"
        elif name in table:
            key = table[name]
        else:
            layer, _, variable = name.rpartition("/")
            key = f"{table[layer].format(last=4 + layers)}/{variable}"
        found[f"{root}/{key}"] = value
    return found


def write_garden(folder, golden, arrays, prefix="bert_model.ckpt"):
    """A TF2 checkpoint of objects that hold arrays under such keys; `.S` is a `/` in a name."""
    write_config(
        folder, {k: v for k, v in golden.config.items() if k in _GOOGLE_KEYS}, "bert_config.json"
    )
    tree = {}
    for key, value in arrays.items():
        *path, last = key.split("/")
        node = tree
        for part in path:
            node = node.setdefault(part, {})
        node[last] = tf.Variable(value)

    def objects(node):
        if not isinstance(node, dict):
            return node
        return tf.train.Checkpoint(
            **{name.replace(".S", "/"): objects(child) for name, child in node.items()}
        )

    objects(tree).write(str(folder / prefix))
    return folder
