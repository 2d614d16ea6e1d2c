"""Scores that merge over batches and are finished on the host."""
