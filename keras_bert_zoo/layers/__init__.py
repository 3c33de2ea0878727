"""Keras layers without a family's name, from which every encoder is composed."""
