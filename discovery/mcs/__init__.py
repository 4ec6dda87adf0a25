"""Multi-cluster services (KEP-1645): the registry, the controller of each cluster, and the admin command."""
