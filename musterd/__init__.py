"""Muster, a Kafka broker in Python: the package that other programs import, and the command
`muster`.

The program's own packages have short names, such as `log` and `broker`. Only Muster's own processes
can import packages by these names (`musterd.rooms`); a program that imports `musterd` can't.

Where to change:

- the API for users' tests: `musterd/testing/`. Then docs/test/testing-with-muster.md,
  `tests/musterd`.
- the contents of a wheel, `make dist`: pyproject.toml, `tools/make_dist.py`, `musterd/rooms.py`.
  Then docs/use/installing.md, `tests/dist`.
"""

__version__ = "0.1.0"
"""The version of Muster. Builds, `muster --version` and the tests read it."""
