"""Compare losses and see why they differ."""
