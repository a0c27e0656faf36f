"""Requests in test mode: faults that affect requests, and a recording of each request."""
