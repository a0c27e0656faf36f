"""The controller's I/O: its election, its reads and writes, and its channels to brokers."""
