"""Replication: executes the controller's requests, fetches from leaders, and changes the ISR."""
