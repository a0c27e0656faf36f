"""TLS: key and trust stores, what a listener makes of them, and the layer on a connection."""
