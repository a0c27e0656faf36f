"""The content of the page and /api, as plain values for JSON."""
