"""The content of the page and of /api, as plain values for JSON."""
