"""Converts a checkpoint of Google, TF Model Garden or Hugging Face.

python examples/convert_checkpoint.py --source uncased_L-2_H-128_A-2 --target bert-tiny --format hf

`--format hf` writes a Hugging Face folder, `keras` a .keras file to train further, and
`saved_model` a SavedModel that takes strings. The head that the source has comes along. A source
without one becomes an encoder in a Hugging Face folder, and otherwise a text embedder, which pools
as the source tells, or else by the mean. The last line printed is JSON.
"""

import json
import os
import pathlib

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from absl import app, flags

import keras_bert_zoo as kbz
from keras_bert_zoo.tasks.architectures import ARCHITECTURES, task_of_preset

TASKS = {task.__name__: task for task in ARCHITECTURES.values()}
TASKS |= {task.__name__: task for task in (kbz.MultiLabelClassifier, kbz.TextEmbedder)}

FLAGS = flags.FLAGS
flags.DEFINE_string("source", None, "Folder, hf://owner/name, or name of a preset.")
flags.DEFINE_string("target", None, "Folder, or .keras file, to write.")
flags.DEFINE_enum("format", None, ["hf", "keras", "saved_model"], "What to write.")
flags.DEFINE_enum("task", None, ["BertEncoder", *sorted(TASKS)], "By default as the source tells.")
flags.DEFINE_list("labels", None, "Names of the classes, where the source has none.")
flags.DEFINE_integer("max_seq_length", None, "Tokens a text is cut to; the source's by default.")
flags.DEFINE_bool("do_lower_case", None, "Whether to lower-case; as the source tells by default.")
flags.DEFINE_bool("pair", None, "Whether the SavedModel takes pairs of texts.")
flags.DEFINE_string("hidden_act", None, "Activation, where the source does not tell: gelu_new.")
flags.mark_flags_as_required(["source", "target", "format"])


def load():
    """Loads the source as what it is to become."""
    name = FLAGS.task
    if name is None:
        task = task_of_preset(FLAGS.source)
        headless = "BertEncoder" if FLAGS.format == "hf" else "TextEmbedder"
        name = headless if task is None else task.__name__
    kind = kbz.TextEmbedder if name == "BertEncoder" else TASKS[name]
    given = {"labels": FLAGS.labels, "pair": FLAGS.pair}
    return name, kind.from_preset(
        FLAGS.source,
        sequence_length=FLAGS.max_seq_length,
        lowercase=FLAGS.do_lower_case,
        config_changes={"hidden_act": FLAGS.hidden_act} if FLAGS.hidden_act else None,
        **{key: value for key, value in given.items() if value is not None},
    )


def main(_):
    if FLAGS.format == "keras" and not FLAGS.target.endswith(".keras"):
        raise app.UsageError(f"--target must end in .keras, and is {FLAGS.target!r}.")
    if FLAGS.task == "BertEncoder" and FLAGS.format != "hf":
        raise app.UsageError("An encoder alone has --format=hf only; take --task=TextEmbedder.")
    pathlib.Path(FLAGS.target).parent.mkdir(parents=True, exist_ok=True)
    name, task = load()
    print(task.load_report)
    if name == "BertEncoder":
        task.encoder.save_to_preset(FLAGS.target, task.tokenizer)
    elif FLAGS.format == "hf":
        task.save_to_preset(FLAGS.target)
    elif FLAGS.format == "keras":
        task.save(FLAGS.target)
    else:
        task.export(FLAGS.target, with_text=task.preprocessor is not None)
    print(
        json.dumps(
            {
                "target": FLAGS.target,
                "format": FLAGS.format,
                "task": name,
                "weights": len(task.load_report.loaded),
                "missing": list(task.load_report.missing),
                "unused": list(task.load_report.unused),
            }
        )
    )


if __name__ == "__main__":
    app.run(main)
