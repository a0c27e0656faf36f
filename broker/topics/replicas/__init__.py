"""Replicas in a cluster: leaders, followers and what they know of each other."""
