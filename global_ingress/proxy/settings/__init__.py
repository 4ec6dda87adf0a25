"""The operator's files: what they may say, read to frozen values or to all their faults."""
