"""What every Python scenario shares: the report lines and the talk with `cargo xtask e2e`.

The contract is in ../README.md. A check is a function; it passes when it returns.
"""

import os
import sys
import time
import traceback

FIRST_LEVEL = os.environ.get("HELENUS_E2E_LEVEL") == "first"


def say(line):
    print(line, flush=True)


def check(name, function):
    """Runs one check and reports it; the scenario ends at the first failure."""
    try:
        function()
    except BaseException:
        say(f"FAILED {name}")
        traceback.print_exc()
        os._exit(1)  # the driver's threads must not keep a failed scenario alive
    say(f"ok {name}")


def check_beyond_first(name, function):
    """A check of a type that the first level of the server does not have yet."""
    if FIRST_LEVEL:
        say(f"skip {name}: not in the first level")
    else:
        check(name, function)


def equal(got, wanted):
    if got != wanted:
        raise AssertionError(f"got    {got!r}\nwanted {wanted!r}")


def raises(kind, fragment, function):
    """The function must raise exactly this class of error, with the fragment in its text."""
    try:
        function()
    except kind as error:
        if fragment not in str(error):
            raise AssertionError(f"{fragment!r} is not in {error}") from error
        return
    raise AssertionError(f"no {kind.__name__} was raised")


def eventually(what, condition, seconds=90):
    """Waits until the condition holds; errors on the way count as not yet."""
    deadline = time.monotonic() + seconds
    last = None
    while time.monotonic() < deadline:
        try:
            if condition():
                return
        except Exception as error:
            last = error
        time.sleep(0.1)
    raise AssertionError(f"not within {seconds} s: {what} (last error: {last!r})")


def ask_harness(what):
    """Asks the harness to do something with the server; False when the server is not its own."""
    say(f"{what} PLEASE")
    answer = sys.stdin.readline().strip()
    if answer not in ("DONE", "SKIP"):
        raise AssertionError(f"unexpected answer of the harness: {answer!r}")
    return answer == "DONE"


def restart_server():
    """Asks the harness for a restart of the server; False when the server is not its own."""
    return ask_harness("RESTART")
