"""The directory: which pools exist, where, how they are reached, and whether the list is complete."""
