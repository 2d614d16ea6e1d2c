"""`python -m dicejax` is the command `dicejax`."""

from dicejax.cli import main

if __name__ == "__main__":  # importing it, as doctest does, runs nothing
    main()
