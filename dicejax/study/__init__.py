"""Does a loss help on some data, and why: runs compared, and read."""
