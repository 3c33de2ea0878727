"""Scores that equal those of the official scorers."""
