"""Code that keeps the event loop responsive and the process stable: slices, threads, the
watchdog."""
