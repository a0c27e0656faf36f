"""The guard: what a request's sender may not do, it does not get; in front of the handlers."""
