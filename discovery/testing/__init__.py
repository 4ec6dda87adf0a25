"""What tests and demos of this project, and of those who use it, may stand on."""
