"""What keeps the event loop free and the process whole: slices, threads, the watchdog."""
