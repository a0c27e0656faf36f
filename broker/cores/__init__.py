"""The runtime that provides pure cores with turns, a log and a timer."""
