"""Which pools exist, where, and how they are reached."""
