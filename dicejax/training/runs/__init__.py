"""A run's folder: settings, checkpoints, how far it got."""
