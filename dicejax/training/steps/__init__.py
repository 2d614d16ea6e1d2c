"""One update: loss, gradients, weighting, the state that it changes."""
