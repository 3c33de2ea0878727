"""Makes tests/golden/*.npz: a tiny random BertForPreTraining and what it computes.

The reference is `transformers.BertForPreTraining`, run in float64 and in evaluation mode, so that
the stored figures are right to the last float32 digit. Needs the `parity` extra, and none of
this package:

    python tests/make_golden.py [--output_dir tests/golden]

A file holds, each under its prefix:

    config            JSON: the config.json the model was made with
    versions          JSON: the versions of Python and of the libraries
    weights/NAME      the state dict, under the original names
    inputs/NAME       token_ids, segment_ids, padding_mask (B, L); masked_positions (B, P)
    targets/NAME      masked_ids (B, P), masked_weights (B, P), next_sentence (B,)
    outputs/NAME      hidden_states (N+1, B, L, H), attentions (N, B, A, L, L), pooled_output
                      (B, H), masked_lm_logits (B, P, V), next_sentence_logits (B, 2), loss ()
    gradients/NAME    of the loss, for every parameter, under the original names

`reference_run` and `random_model` serve the live comparison too.
"""

import argparse
import json
import pathlib
import platform

import numpy as np
import torch
import transformers

# Sizes are odd on purpose: nothing is a power of two, 4H, or equal to something else by chance.
SIZES = {
    "bert_gelu": {
        "vocab_size": 61,
        "hidden_size": 21,
        "num_hidden_layers": 3,
        "num_attention_heads": 3,
        "intermediate_size": 37,
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-12,
    },
    "bert_gelu_new": {
        "vocab_size": 59,
        "hidden_size": 20,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 33,
        "hidden_act": "gelu_new",
        # Large enough to be seen in the outputs, should an epsilon not be obeyed.
        "layer_norm_eps": 1e-3,
    },
}
LENGTHS = ((9, 0), (13, 0), (5, 4), (2, 0), (6, 7))  # of the two texts; 13 fills the row
LENGTH = 13
CLS, SEP, MASK, FIRST_WORD = 2, 3, 4, 5


def random_model(seed: int, stddev: float, **sizes) -> transformers.BertForPreTraining:
    """Returns a model in which no parameter is trivial, in evaluation mode.

    Args:
        seed: of the weights.
        stddev: of the matrices; biases get 0.1, and the scales of normalizations 1 ± 0.2.
        **sizes: settings of `BertConfig`.
    """
    settings = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0} | sizes
    config = transformers.BertConfig(attn_implementation="eager", **settings)
    model = transformers.BertForPreTraining(config).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            values = torch.randn(parameter.shape, generator=generator)
            if "LayerNorm.weight" in name:
                parameter.copy_(1 + 0.2 * values)
            else:
                parameter.copy_(values * (0.1 if name.endswith("bias") else stddev))
    return model


def random_batch(seed: int, vocab_size: int, lengths, length: int, predictions: int):
    """Returns `(inputs, targets)` of padded single texts and pairs, as numpy arrays.

    Args:
        seed: of the ids and the masked positions.
        vocab_size: ids are drawn below it.
        lengths: for each row the lengths of its two texts, special tokens included; the second
            may be 0.
        length: L.
        predictions: P; rows use between 1 and P of them.
    """
    random = np.random.default_rng(seed)
    rows = len(lengths)
    inputs = {
        name: np.zeros((rows, length), np.int32)
        for name in ("token_ids", "segment_ids", "padding_mask")
    }
    inputs["masked_positions"] = np.zeros((rows, predictions), np.int32)
    targets = {
        "masked_ids": np.zeros((rows, predictions), np.int32),
        "masked_weights": np.zeros((rows, predictions), np.float32),
        "next_sentence": random.integers(0, 2, rows).astype(np.int32),
    }
    for row, (first, second) in enumerate(lengths):
        total = first + second
        ids = random.integers(FIRST_WORD, vocab_size, total)
        ids[0], ids[first - 1], ids[total - 1] = CLS, SEP, SEP
        words = np.setdiff1d(np.arange(1, total - 1), [first - 1])
        count = min(len(words), 1 + row % predictions)
        positions = np.sort(random.choice(words, count, replace=False))
        inputs["masked_positions"][row, :count] = positions
        targets["masked_ids"][row, :count] = ids[positions]
        targets["masked_weights"][row, :count] = 1
        ids[positions] = MASK
        inputs["token_ids"][row, :total] = ids
        inputs["segment_ids"][row, first:total] = 1
        inputs["padding_mask"][row, :total] = 1
    return inputs, targets


def reference_run(model, inputs, targets, backward: bool = True) -> tuple[dict, dict | None]:
    """Returns `(outputs, gradients)` of the model, as the module says, as numpy arrays.

    Args:
        model: the model; its dtype is that of the computation.
        inputs, targets: as `random_batch` gives them.
        backward: false for no gradients.
    """
    tensors = {name: torch.tensor(value, dtype=torch.long) for name, value in inputs.items()}
    positions = tensors["masked_positions"]
    ids, weights = (torch.tensor(targets[name]) for name in ("masked_ids", "masked_weights"))
    labels = torch.full_like(tensors["token_ids"], -100)
    for row in range(len(labels)):
        used = weights[row] > 0
        labels[row, positions[row, used]] = ids[row, used].long()
    result = model(
        input_ids=tensors["token_ids"],
        token_type_ids=tensors["segment_ids"],
        attention_mask=tensors["padding_mask"],
        labels=labels,
        next_sentence_label=torch.tensor(targets["next_sentence"], dtype=torch.long),
        output_hidden_states=True,
        output_attentions=True,
    )
    rows = torch.arange(len(labels))[:, None]
    outputs = {
        "hidden_states": torch.stack(result.hidden_states),
        "attentions": torch.stack(result.attentions),
        "pooled_output": model.bert.pooler(result.hidden_states[-1]),
        "masked_lm_logits": result.prediction_logits[rows, positions],
        "next_sentence_logits": result.seq_relationship_logits,
        "loss": result.loss,
    }
    outputs = {name: value.detach().numpy() for name, value in outputs.items()}
    gradients = None
    if backward:
        names, parameters = zip(*model.named_parameters(), strict=True)
        found = torch.autograd.grad(result.loss, parameters)
        gradients = {name: value.numpy() for name, value in zip(names, found, strict=True)}
    return outputs, gradients


def state_dict(model) -> dict:
    """Returns the parameters by their names in a checkpoint, as float32 numpy arrays.

    Matrices tied to another appear once, under the name `named_parameters` has for them.
    """
    return {name: p.detach().float().numpy().copy() for name, p in model.named_parameters()}


def main():
    parser = argparse.ArgumentParser(description="Makes the golden files of the parity tests.")
    parser.add_argument(
        "--output_dir", type=pathlib.Path, default=pathlib.Path(__file__).parent / "golden"
    )
    folder = parser.parse_args().output_dir
    folder.mkdir(parents=True, exist_ok=True)
    versions = {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }
    for seed, (name, sizes) in enumerate(SIZES.items(), start=1):
        model = random_model(seed, 0.3, max_position_embeddings=40, **sizes)
        inputs, targets = random_batch(seed, sizes["vocab_size"], LENGTHS, LENGTH, 4)
        weights = state_dict(model)
        outputs, gradients = reference_run(model.double(), inputs, targets)
        parts = {
            "weights": weights,
            "inputs": inputs,
            "targets": targets,
            "outputs": {key: np.float32(value) for key, value in outputs.items()},
            "gradients": {key: np.float32(value) for key, value in gradients.items()},
        }
        arrays = {f"{part}/{key}": value for part, d in parts.items() for key, value in d.items()}
        arrays["config"] = np.array(json.dumps(model.config.to_dict(), default=str))
        arrays["versions"] = np.array(json.dumps(versions))
        path = folder / f"{name}.npz"
        np.savez_compressed(path, **arrays)
        size = path.stat().st_size
        print(f"{path}: {size:,} bytes, loss {outputs['loss']:.6f}")
        if size >= 200_000:
            raise SystemExit(f"{path} is too large for a repository: make the model smaller.")


if __name__ == "__main__":
    main()
