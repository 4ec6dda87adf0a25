"""From one declared fleet to the manifests of each cluster."""
