"""Client quotas applied to requests: measuring use, setting throttle times, throttling
connections.
"""
