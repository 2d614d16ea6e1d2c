"""Everything between a batch and an update, and the runs made of it."""
