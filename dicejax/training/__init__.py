"""Training: steps, runs and their results."""
