"""The test mode of `muster serve --test`: tests control a broker's time, files and faults."""
