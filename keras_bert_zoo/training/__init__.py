"""Loops that train a task."""
