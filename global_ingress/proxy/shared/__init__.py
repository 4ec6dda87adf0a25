"""What both sides know: the messages between them, the memory they share, and small tables and rules."""
