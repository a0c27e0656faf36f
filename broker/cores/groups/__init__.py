"""Groups as a kind of core: their records, duties and log lines."""
