"""What the gradients of some steps of a run are like, measured while it goes on."""
