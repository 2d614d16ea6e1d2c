"""Measurements of the gradients of some steps of a run, during training."""
