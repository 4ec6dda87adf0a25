"""The registry over gRPC: `registry.proto` and what `make proto` generates from it."""
