"""The judged evidence, and how it is written down."""
