"""Experiments written from people's files."""
