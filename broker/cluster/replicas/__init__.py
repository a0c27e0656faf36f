"""Replication: executes the controller's requests, follows leaders, changes in-sync replicas."""
