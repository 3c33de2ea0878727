"""Encoders: ids in, vectors out."""
