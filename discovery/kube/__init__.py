"""What discovery knows of Kubernetes: names, and the client that reads and writes its objects."""
