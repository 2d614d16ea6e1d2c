"""F1-oriented training of NLP encoders on imbalanced data, in JAX."""

__version__ = "0.1.0"
