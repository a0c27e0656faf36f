"""Requests in test mode: faults that affect them, and a recording of each."""
