"""The runtime of pure cores: it gives them turns, a log and a timer."""
