"""Readers of text and label files, and the datasets that training reads."""
