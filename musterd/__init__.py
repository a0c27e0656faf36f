"""Muster, a Kafka broker in Python, as seen by its environment: one package, and the command
`muster`.

The program's own packages have short names, such as `log` and `broker`. Only its own process can
import them by these names (`musterd.rooms`), never a program that imports `musterd`.

Where to change:

- the API for tests of users: `musterd/testing/`. Then docs/test/testing-with-muster.md,
  `tests/musterd`.
- the contents of a wheel, `make dist`: pyproject.toml, `tools/make_dist.py`, `musterd/rooms.py`.
  Then docs/use/installing.md, `tests/dist`.
"""

__version__ = "0.1.0"
"""The version of Muster; builds, `muster --version` and the tests read it here."""
