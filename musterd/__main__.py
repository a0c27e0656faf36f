"""`python -m musterd` is the command `muster`."""

from __future__ import annotations

from musterd import rooms


def main() -> None:
    """Run the command `muster`. The installed script `muster` calls the same function."""
    rooms.add()
    from cli.main import main as command

    command()


if __name__ == "__main__":
    main()
