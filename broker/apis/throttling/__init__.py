"""Applies client quotas to requests: measures what a request uses, sets throttle times, and
throttles connections."""
