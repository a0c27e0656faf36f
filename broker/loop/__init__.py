"""Keeps the event loop responsive: slices, threads for long work, and the watchdog. Also log lines
and internal errors."""
