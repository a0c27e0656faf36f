"""One module per served API: from its request to its answer."""
