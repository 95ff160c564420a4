"""Defines the errors that users see, and exit codes. `cli.main` is the only place that prints `message` and `remedy`
and exits."""

# exit code: the data do not decide the requested question; a gate must not treat it as success
NOT_DECIDED_EXIT_CODE = 6


class NearfieldError(Exception):
    """An error on which the user can act: `message` states the cause, `remedy` what to do about it."""

    exit_code = 1

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        """Returns message and remedy as text for tracebacks."""
        return f"{self.message}; {self.remedy}" if self.remedy else self.message


class UsageError(NearfieldError):
    """An argument is wrong."""

    exit_code = 2


class MpiError(NearfieldError):
    """No MPI is usable, or a build for it or a launch by it has failed."""

    exit_code = 3


class ProfileError(NearfieldError):
    """A profile, trace, rules or machine file is missing, wrong, foreign or newer than this program, or cannot be
    written."""

    exit_code = 4


class MeasurementError(NearfieldError):
    """A measurement failed: a rank died, a sanity check failed, or a rank is on the wrong core."""

    exit_code = 5


class NodeLostError(MeasurementError):
    """A node on which ranks ran has died."""
