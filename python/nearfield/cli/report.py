"""`nearfield report`: being written."""


def command() -> None:
    """One HTML page about a profile."""
