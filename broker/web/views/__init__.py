"""What the page and /api show, as plain values for JSON."""
