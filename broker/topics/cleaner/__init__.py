"""The cleaner of a broker: chooses dirty logs, runs the worker process, swaps segments."""
