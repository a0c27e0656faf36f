"""The controller's edge: its election, what it reads and writes, and its channels to brokers."""
