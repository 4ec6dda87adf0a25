"""Offline: what a dump of EndpointSlices and a settings file come to."""
