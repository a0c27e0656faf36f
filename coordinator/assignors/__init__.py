"""Server-side assignors (KIP-848): pure functions that compute a target assignment for the members
of a group."""
