"""Replicas in a cluster: leaders, followers, and what they know about each other."""
