"""Markdown extensions of the site: `python -m mkdocs` finds them in the repository."""
