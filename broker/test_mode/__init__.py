"""What `muster serve --test` adds to a broker: a test controls its time, files and faults."""
