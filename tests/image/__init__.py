"""`make image`: builds the image from this checkout and shows that it is what it says."""
