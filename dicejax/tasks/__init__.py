"""Tasks: sentences to labels, predictions to scores."""
