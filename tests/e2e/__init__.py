"""End to end: real Dynamo frontends with CPU mockers on loopback, driven with the real SDK."""
