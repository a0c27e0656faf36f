"""TLS: key and trust stores, the contexts of listeners, and the layer on a connection."""
