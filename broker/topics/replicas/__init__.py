"""Replicas in a cluster: leaders and followers, and what a leader knows about its followers."""
