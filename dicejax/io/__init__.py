"""Files, JSON and the terminal."""
