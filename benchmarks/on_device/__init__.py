"""Sections of `accelerator.py`, one module each, with an entry `run`."""
