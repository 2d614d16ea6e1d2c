"""What a training step takes, from its compiled program: memory, collectives, time."""
