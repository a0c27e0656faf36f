"""The cleaner of a broker: the choice of dirty logs, the worker process, the swap of segments."""
