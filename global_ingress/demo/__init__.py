"""The whole system on loopback, with nothing installed beside it."""
