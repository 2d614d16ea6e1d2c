"""What a training tells while it runs."""
