"""Gradients of losses and of runs: why losses differ.

`curves` draws losses alone: value and slope over probability, the paper's Figure 1.
`history` and `plot` show the measurements of a run; `agreement` compares the gradients
of losses with that of F1 at a checkpoint.
"""
