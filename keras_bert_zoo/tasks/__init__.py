"""Tasks: an encoder, a head, a loss, metrics, and the decoding of outputs."""
