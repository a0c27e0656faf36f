"""The cleaner of a broker: which logs are dirty, its worker process, and the swap of segments."""
