"""Muster, a Kafka broker in Python, as an environment sees it: one name, and the command `muster`.

The packages that the program is made of have short names of their own, such as `log` and `broker`.
Only its own process sees them by these names (`musterd.rooms`), never the program of whoever
imports `musterd`.
"""

__version__ = "0.1.0"
"""The version of Muster; what is built, `muster --version` and the tests read it here."""
