"""The validation client: shows from outside that what was deployed does what it should."""
