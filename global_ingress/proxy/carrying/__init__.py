"""The worker's side: one request's whole way, from a client's connection to a frontend's and back."""
