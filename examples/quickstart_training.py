"""The two trainings of the quick start: on plain text, and on a few labelled examples."""

import itertools

import keras
import numpy as np

import keras_bert_zoo as kbz
from keras_bert_zoo.datasets.corpus import PretrainingCorpus
from keras_bert_zoo.datasets.labelled import draw_examples
from keras_bert_zoo.datasets.pretraining import pretraining_dataset

CURVE_POINTS = 8


def pretrain(
    config, preprocessor, corpus, steps, batch_size, learning_rate, masking_rate, rows, seed
):
    """Trains masked words and next sentences for a number of steps.

    Returns:
        The task; the learning curve, a list of dicts; and the figures to tell, a dict.
    """
    length, tokenizer = preprocessor.sequence_length, preprocessor.tokenizer
    # In less than a few passes over the text there is nothing to overfit: no dropout.
    encoder = kbz.BertEncoder(_with_dropout(config, 0.0))
    task = kbz.Pretraining(encoder, preprocessor, seed=seed)
    task.compile(
        kbz.adamw(learning_rate, total_steps=max(steps, 1), warmup_steps=steps // 10),
        clip_norm=1.0,
    )
    parts = [
        PretrainingCorpus.from_documents([d.lines for d in part], tokenizer)
        for part in (corpus.train, corpus.held_out)
    ]
    held_out = held_out_rows(parts[1], length, masking_rate, rows, seed)
    curve = []

    def measure(step):
        scores = task.evaluate(*held_out, batch_size=128, verbose=0, return_dict=True)
        curve.append(
            {"step": step}
            | {name: float(scores[name]) for name in scores if name.startswith(("masked", "next"))}
        )
        print(
            f"step {step}: held-out masked-word loss {scores['masked_lm_loss']:.3f} (accuracy "
            f"{scores['masked_lm_accuracy']:.3f}), next-sentence accuracy "
            f"{scores['next_sentence_accuracy']:.3f}"
        )

    measure(0)
    points = sorted({steps * point // CURVE_POINTS for point in range(CURVE_POINTS + 1)})
    for begin, end in itertools.pairwise(points):
        dataset = pretraining_dataset(
            parts[0], length, batch_size, seed=seed, start_step=begin, masking_rate=masking_rate
        )
        task.fit(dataset, steps_per_epoch=end - begin)
        measure(end)
    figures = {
        "mlm_loss_start": curve[0]["masked_lm_loss"],
        "mlm_loss_end": curve[-1]["masked_lm_loss"],
        "mlm_loss_unigram": unigram_loss(parts[0].unigram_counts, held_out[1]),
        "mlm_accuracy": curve[-1]["masked_lm_accuracy"],
        "nsp_accuracy": curve[-1]["next_sentence_accuracy"],
        "nsp_share_not_next": float(np.mean(held_out[1]["next_sentence"])),
    }
    return task, curve, {name: round(value, 4) for name, value in figures.items()}


def held_out_rows(corpus, length, masking_rate, rows, seed):
    """Takes up to ``rows`` pairs, masked once and for all, as many true as random ones."""
    dataset = pretraining_dataset(
        corpus, length, 512, seed=seed, epochs=1, masking_rate=masking_rate
    )
    batches = list(dataset.as_numpy_iterator())
    inputs, targets = keras.tree.map_structure(lambda *parts: np.concatenate(parts), *batches)
    labels = np.where(targets["next_sentence_weights"] > 0, targets["next_sentence"], -1)
    kinds = [np.flatnonzero(labels == kind) for kind in (0, 1)]
    each = min(rows // 2, *map(len, kinds))
    chosen = np.sort(np.concatenate([kind[:each] for kind in kinds]))
    return keras.tree.map_structure(lambda part: part[chosen], (inputs, targets))


def unigram_loss(counts, targets) -> float:
    """Cross-entropy of the masked tokens under how often each token is in the training text."""
    shares = (counts + 1) / (counts + 1).sum()
    losses, weights = -np.log(shares[targets["masked_ids"]]), targets["masked_weights"]
    return float((losses * weights).sum() / weights.sum())


def compare_starts(
    encoder, preprocessor, corpus, per_label, draws, epochs, batch_size, learning_rate, seed
):
    """Fine-tunes from pretrained and from random weights, on the same examples in the same way.

    Returns:
        The classifier from pretrained weights that was trained last, and the accuracies on the
        held-out documents, a dict.
    """
    config = _with_dropout(encoder.config, 0.1)
    scores = {"scratch": [], "pretrained": []}
    bar = keras.utils.Progbar(2 * draws * epochs, unit_name="epoch", interval=0.5)
    texts, labels = _columns(corpus.test)
    for draw in range(draws):
        examples = draw_examples(corpus.pool, corpus.labels, per_label, seed + draw)
        for start, found in scores.items():
            keras.utils.set_random_seed(seed + draw)
            fresh = kbz.BertEncoder(config)
            if start == "pretrained":
                fresh.set_weights(encoder.get_weights())
            task = kbz.TextClassifier(fresh, corpus.labels, preprocessor)
            total = epochs * -(-len(examples) // batch_size)
            task.compile(
                kbz.adamw(learning_rate, total_steps=total, warmup_steps=total // 10),
                clip_norm=1.0,
            )
            task.fit(
                *_columns(examples), batch_size, epochs=epochs, verbose=0,
                callbacks=[keras.callbacks.LambdaCallback(on_epoch_end=lambda *_: bar.add(1))],
            )  # fmt: skip
            result = task.evaluate(texts, labels, 128, verbose=0, return_dict=True)
            found.append(round(float(result["accuracy"]), 4))
    figures = {f"accuracy_{start}": round(float(np.mean(n)), 4) for start, n in scores.items()}
    return task, figures | {f"accuracies_{start}": n for start, n in scores.items()}


def _columns(documents):
    return [d.text for d in documents], [d.label for d in documents]


def _with_dropout(config, rate):
    return kbz.EncoderConfig.from_dict(
        config.to_dict() | {"hidden_dropout_prob": rate, "attention_probs_dropout_prob": rate}
    )
