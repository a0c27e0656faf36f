"""What test mode adds to requests: faults that meet them, and a recording of each."""
