"""The directory: which pools exist, read from EndpointSlices and registrations, served over HTTP."""
