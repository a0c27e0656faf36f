"""The runtime of pure cores, which provides turns, a log and a timer."""
