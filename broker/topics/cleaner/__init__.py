"""The log cleaner of a broker: chooses dirty logs, runs the worker process, replaces segments."""
