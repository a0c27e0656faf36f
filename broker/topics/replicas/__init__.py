"""Replicas in a cluster: leaders, followers, and the state that each has about the others."""
