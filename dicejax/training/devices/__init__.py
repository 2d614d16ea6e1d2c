"""Which devices there are, and what lies on which."""
