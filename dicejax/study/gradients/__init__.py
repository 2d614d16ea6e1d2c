"""Gradients of losses and of runs: why losses differ."""
