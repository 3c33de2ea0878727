"""SavedModels: one graph from a string to an answer."""
