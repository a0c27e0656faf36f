"""Server-side assignors (KIP-848): pure functions from members to a target assignment."""
