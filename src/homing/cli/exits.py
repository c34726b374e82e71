"""Exit codes: what a script or an orchestrator may conclude from the end of a command."""

from enum import IntEnum

from homing.errors import ConfigurationError, Refused, ServerUnavailable, UnknownId, UnsuitableServer


class Exit(IntEnum):
    """The exit codes of every verb; they never change their meaning."""

    DONE = 0
    """Done, or stopped in good order."""
    FOUND_WRONG = 1
    """A verb that looks for something wrong found it."""
    USAGE = 2
    """The command line itself cannot be read."""
    CONFIGURATION = 3
    """A setting, the code or the schema cannot work as it is."""
    SERVER = 4
    """A server does not answer, or has the wrong version or settings."""
    REFUSED = 5
    """It would be done only with a confirmation, or not now."""
    NO_SUCH_ID = 6
    """The id names nothing."""
    INTERNAL = 70
    """A mistake in Homing; the traceback says where."""
    HARD_STOP = 75
    """Stopped before the running jobs had ended; they were given back."""
    STUCK = 76
    """A background loop had died or stopped turning."""
    INTERRUPTED = 130
    """The second SIGINT."""
    TERMINATED = 143
    """The second SIGTERM."""


def exit_for(error: Exception) -> Exit:
    """The code for an error that ended a command."""
    if isinstance(error, ConfigurationError):
        return Exit.CONFIGURATION
    if isinstance(error, ServerUnavailable | UnsuitableServer):
        return Exit.SERVER
    if isinstance(error, Refused):
        return Exit.REFUSED
    if isinstance(error, UnknownId):
        return Exit.NO_SUCH_ID
    return Exit.INTERNAL
