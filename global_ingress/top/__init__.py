"""`global-ingress top`: several ingresses at a glance, in a terminal or as JSON."""
