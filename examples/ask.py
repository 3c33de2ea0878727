"""Asks an exported classifier. It needs TensorFlow and tensorflow-text, and not this package.

python examples/ask.py saved_models/quickstart/saved_model "Draws a line." "Opens a file."
"""

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tensorflow as tf
import tensorflow_text  # noqa: F401  (registers the operations)

if len(sys.argv) < 3:
    sys.exit(__doc__)
answers = tf.saved_model.load(sys.argv[1]).signatures["serving_default"](
    text=tf.constant(sys.argv[2:])
)
shares = tf.reduce_max(answers["probabilities"], axis=-1)
for label, share in zip(answers["label"].numpy(), shares.numpy(), strict=True):
    print(f"{label.decode()} {share:.2f}")
