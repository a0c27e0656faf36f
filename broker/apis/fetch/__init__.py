"""The Fetch API: the handler, fetch sessions, reads of the logs, and the response."""
