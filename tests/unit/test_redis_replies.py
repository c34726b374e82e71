"""What an error reply means."""

import pytest

from homing.errors import ConfigurationError, HomingError, ServerUnavailable, UnsuitableServer
from homing.queue.redis.replies import ResponseError, WrongServer, error_of_reply


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("LOADING Redis is loading the dataset in memory", ServerUnavailable),
        ("READONLY You can't write against a read only replica. script: f00, on @user_script:1.", WrongServer),
        ("OOM command not allowed when used memory > 'maxmemory'.", ServerUnavailable),
        ("ERR Error running script (call to f_1): @user_script:9: -OOM command not allowed", ServerUnavailable),
        ("ERR Error running script (call to f_1): @user_script:9: @user_script: 9: -READONLY no", WrongServer),
        ("UNBLOCKED force unblock from blocking operation, instance state changed", WrongServer),
        ("MASTERDOWN Link with MASTER is down", WrongServer),
        ("BUSY Redis is busy running a script", ServerUnavailable),
        ("CLUSTERDOWN The cluster is down", WrongServer),
        ("TRYAGAIN Multiple keys request during rehashing of slot", ServerUnavailable),
        ("MISCONF Errors writing to the AOF file", ServerUnavailable),
        ("ERR max number of clients reached", ServerUnavailable),
        ("NOAUTH Authentication required.", ConfigurationError),
        ("WRONGPASS invalid username-password pair or user is disabled.", ConfigurationError),
        ("ERR AUTH <password> called without any password configured", ConfigurationError),
        ("NOPERM User shop has no permissions to run the 'info' command", ConfigurationError),
        ("ERR DB index is out of range", ConfigurationError),
        ("MOVED 3999 127.0.0.1:6381", WrongServer),
        ("CROSSSLOT Keys in request don't hash to the same slot", UnsuitableServer),
        ("NOSCRIPT No matching script.", ResponseError),
        ("WRONGTYPE Operation against a key", ResponseError),
        ("ERR unknown command 'BUSY '", ResponseError),
        ("", ResponseError),
    ],
)
def test_error_replies_are_sorted_by_remedy(text: str, expected: type[HomingError]) -> None:
    """Outages are told from mistakes, and the server's own words are kept."""
    error = error_of_reply(text)
    assert type(error) is expected
    assert text in str(error)


def test_the_code_is_the_first_word() -> None:
    """Callers tell NOSCRIPT from the rest by it."""
    error = error_of_reply("NOSCRIPT No matching script.")
    assert isinstance(error, ResponseError)
    assert error.code == "NOSCRIPT"
