"""Who reads over HTTP, how he says so, and what he may see."""
