"""Memory, collectives and time of a training step, from its compiled program."""
