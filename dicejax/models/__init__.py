"""Encoders and heads in flax.nnx, as pure functions of their parameters."""
