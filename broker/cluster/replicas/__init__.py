"""Replication: carries out the controller's requests, follows leaders, changes in-sync replicas."""
