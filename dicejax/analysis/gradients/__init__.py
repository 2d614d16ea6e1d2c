"""Why losses differ: what each of them does to gradients.

`curves` and `landscape` are about losses alone: value and slope over probability, the
paper's Figure 1. `history` and `figures_of_run` show what was measured while a run went
on; `agreement` asks a finished run which losses point where F1 points.
"""
