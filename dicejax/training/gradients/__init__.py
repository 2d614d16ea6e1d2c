"""Measurements of gradients during training."""
