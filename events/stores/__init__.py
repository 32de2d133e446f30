"""Where a stream's events are kept: the protocol and its implementations."""
