"""What the quick start shows at its end: a picture, answers of the SavedModel, figures."""

import json
import re
import resource
import subprocess
import sys
from pathlib import Path

from keras_bert_zoo.datasets.labelled import stable_hash


def draw_curve(curve, unigram_loss, path):
    """Draws held-out loss and accuracy over the steps of pretraining."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    steps = [point["step"] for point in curve]
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 4), layout="constrained")
    left.plot(steps, [point["masked_lm_loss"] for point in curve], "o-", label="BERT")
    left.axhline(unigram_loss, linestyle="--", color="gray", label="unigram")
    left.set(title="Masked words, held out", xlabel="step", ylabel="cross-entropy (nats)")
    left.legend()
    right.plot(steps, [point["next_sentence_accuracy"] for point in curve], "o-", label="BERT")
    right.axhline(0.5, linestyle="--", color="gray", label="chance")
    right.set(title="Next sentence, held out", xlabel="step", ylabel="accuracy")
    right.legend()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def ask_saved_model(saved_model, documents, count=5):
    """Has a fresh process, which knows nothing of this package, answer held-out texts."""
    chosen, labels = [], set()
    for document in sorted(documents, key=lambda d: stable_hash(d.source, d.text)):
        if document.label not in labels or len({d.label for d in documents}) < count:
            chosen.append(document)
            labels.add(document.label)
        if len(chosen) == count:
            break
    script = Path(__file__).with_name("ask.py")
    done = subprocess.run(
        [sys.executable, script, saved_model, *(d.text for d in chosen)],
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"The SavedModel could not be asked:\n{done.stderr}")
    for document, answer in zip(chosen, done.stdout.splitlines(), strict=True):
        print(f"  {answer} (it is {document.label}): {document.text[:80]}")


def write_metrics(metrics, folder):
    text = json.dumps(metrics, indent=2, ensure_ascii=False) + "\n"
    (folder / "metrics.json").write_text(text, encoding="utf-8")


def peak_megabytes():
    """The most memory that this process ever had."""
    status = Path("/proc/self/status")
    if status.exists():
        # What `getrusage` tells on Linux may be that of the process which started this one.
        return int(re.search(r"VmHWM:\s+(\d+)", status.read_text())[1]) // 2**10
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak // (2**20 if sys.platform == "darwin" else 2**10)
