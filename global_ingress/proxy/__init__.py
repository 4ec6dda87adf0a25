"""The data plane: one supervisor and its workers."""
