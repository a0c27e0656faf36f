"""What every handler of the HTTP side answers alike."""

from __future__ import annotations

from starlette.responses import JSONResponse, Response


def refused(status: int, sentence: str) -> Response:
    """An error with its sentence."""
    return JSONResponse({"error": sentence}, status)
