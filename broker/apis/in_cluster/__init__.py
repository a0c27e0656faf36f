"""APIs that a broker in a cluster serves differently from a standalone broker."""
