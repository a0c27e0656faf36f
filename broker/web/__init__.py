"""HTTP: the page, /api, live events, /healthz."""
