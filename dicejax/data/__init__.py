"""From files to packed batches of arrays."""
