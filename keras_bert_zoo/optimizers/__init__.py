"""Optimizers with the papers' options, and learning-rate schedules."""
