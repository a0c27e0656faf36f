"""The runtime of cores: it provides pure cores with turns, a log and a timer."""
