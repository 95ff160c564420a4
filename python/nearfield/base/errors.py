"""Defines all errors and exit codes. A command ends in one place: `cli.main` prints `message` and `remedy`."""

NOT_DECIDED = 6  # exit code: the data do not carry the requested conclusion; no gate may take it for success


class NearfieldError(Exception):
    """An error on which the user can act: `message` names the cause, `remedy` what to do about it."""

    exit_code = 1

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        """Returns the text for tracebacks."""
        return f"{self.message}; {self.remedy}" if self.remedy else self.message


class UsageError(NearfieldError):
    """An argument is wrong."""

    exit_code = 2


class MpiError(NearfieldError):
    """No usable MPI, or it could not be built for or started."""

    exit_code = 3


class ProfileError(NearfieldError):
    """A profile, trace, rules or machine file is missing, wrong, foreign or newer than this program, or cannot be
    written."""

    exit_code = 4


class MeasurementError(NearfieldError):
    """A measurement failed: a rank died, a sanity check failed, a rank is on the wrong core."""

    exit_code = 5
