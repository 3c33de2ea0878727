"""What `pretrain.py` leaves of a run: a model card, a learning curve, a folder for other tools."""

import json
import time

import keras
import tensorflow as tf
from absl import flags, logging

FLAGS = flags.FLAGS


def draw_curve(path, curve):
    try:
        import matplotlib
    except ImportError:
        logging.warning("No picture: pip install 'keras-bert-zoo[examples]' brings matplotlib.")
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axis = pyplot.subplots()
    axis.plot([row["step"] for row in curve], [row["masked_lm_loss"] for row in curve], "o-")
    axis.set(xlabel="step", ylabel="held-out masked-word loss")
    figure.savefig(path)
    pyplot.close(figure)


def write_preset(path, task):
    """Writes a Hugging Face folder; a long training is not to end in an error for want of it."""
    try:
        task.save_to_preset(path)
    except ImportError as error:
        logging.warning("No %s: %s", path, error)


def write_card(path, report, rows):
    lines = [
        "# A BERT pretrained with keras_bert_zoo",
        "",
        f"- Made on {time.strftime('%Y-%m-%d')} with TensorFlow {tf.__version__} and Keras "
        f"{keras.__version__}.",
        f"- Text: {', '.join(FLAGS.input_files)}; {report['documents']} documents, "
        f"{report['tokens']} tokens; every {FLAGS.held_out_every}th document is held out.",
        f"- Encoder: {FLAGS.config_file or FLAGS.preset}, {report['parameters']} parameters.",
        f"- Training: {report['steps']} steps of {FLAGS.train_batch_size} rows, "
        f"{' then '.join(f'{steps} with {length} tokens' for length, steps in report['phases'])}; "
        f"{FLAGS.optimizer}, highest rate {FLAGS.learning_rate}, {FLAGS.schedule}; "
        f"{report['precision']}; seed {FLAGS.seed}.",
        f"- Masks: {json.dumps(rows)}.",
        "- On held-out text: "
        + ", ".join(f"{name} {report['held_out'][name]:.4f}" for name in report["held_out"])
        + ".",
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
