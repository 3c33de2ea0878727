"""Checkpoints of other tools: their tensors, their names, and loading them into our models."""
