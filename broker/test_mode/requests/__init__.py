"""Requests in test mode: faults that apply to them, and a recording of each."""
