"""Scores that merge over batches and are computed on the host."""
