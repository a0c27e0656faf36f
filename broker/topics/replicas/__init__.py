"""Replicas in a cluster: leaders, followers and their knowledge of each other."""
