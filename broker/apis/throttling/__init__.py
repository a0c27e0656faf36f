"""Applies client quotas to requests: measures the use, sets throttle times, and throttles
connections.
"""
