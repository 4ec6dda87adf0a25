"""`global-ingress keys`: API keys made, listed and taken back."""
