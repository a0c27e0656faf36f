"""What `muster serve --test` adds to a broker: its time, files and faults are in a test's hand."""
