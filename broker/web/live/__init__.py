"""Live events: what each client watches, row by row, and what it is told."""
