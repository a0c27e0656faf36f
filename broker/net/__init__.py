"""Sockets and requests: the server, its connections, dispatch, and replies in their order."""
