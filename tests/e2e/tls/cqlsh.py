"""cqlsh over TLS: cqlsh.py SETUP HOST PORT FOLDER; the setups are in xtask/src/e2e/tls.rs."""

import os
import pathlib
import subprocess
import sys

from harness import check, equal

SETUP, HOST, PORT, FOLDER = sys.argv[1], sys.argv[2], sys.argv[3], pathlib.Path(sys.argv[4])
CQLSH = pathlib.Path(sys.executable).with_name("cqlsh")


def cqlsh(*arguments, certificate=False):
    settings = FOLDER / "cqlshrc"
    lines = ["[ssl]", f"certfile = {FOLDER / 'ca.pem'}", "validate = true"]
    if certificate:
        lines += [f"userkey = {FOLDER / 'client.key'}", f"usercert = {FOLDER / 'client.pem'}"]
    settings.write_text("\n".join(lines) + "\n")
    statement = "SELECT cql_version FROM system.local"
    return subprocess.run([sys.executable, CQLSH, HOST, PORT, "--cqlshrc", settings, "-e", statement, *arguments],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60,
                          env=os.environ | {"HOME": str(FOLDER)})


def answers(*arguments, **options):
    process = cqlsh(*arguments, **options)
    equal((process.returncode, "3.4.7" in process.stdout or process.stdout), (0, True))


def is_refused(*arguments, **options):
    process = cqlsh(*arguments, **options)
    equal((process.returncode, "3.4.7" in process.stdout), (1, False))


if __name__ == "__main__":
    if SETUP == "required":
        check("cqlsh with --ssl", lambda: answers("--ssl"))
        check("cqlsh without --ssl is refused", is_refused)
    elif SETUP == "optional":
        check("cqlsh with --ssl", lambda: answers("--ssl"))
        check("cqlsh without --ssl on the same port", answers)
    else:
        check("cqlsh with a client certificate", lambda: answers("--ssl", certificate=True))
        check("cqlsh without a client certificate is refused", lambda: is_refused("--ssl"))
