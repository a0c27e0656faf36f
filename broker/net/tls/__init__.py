"""TLS: key stores and trust stores, the contexts of listeners, and the layer between socket and
connection."""
