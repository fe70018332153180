#!/usr/bin/env python3
"""Runs the tasks of shell.tasks, each with a shell of its own, and prints what it said: for shell.out with cqlsh and a real
Cassandra, or to look at another shell.

    record_shell.py cqlsh 127.0.0.1 9042 > shell.out
    record_shell.py helenus cql 127.0.0.1:9042 | diff shell.out -
"""

import pathlib
import re
import subprocess
import sys
import tempfile

here = pathlib.Path(__file__).parent
parts = re.split(r"^=== (.*)\n", (here / "shell.tasks").read_text(), flags=re.M)[1:]
for name, script in zip(parts[::2], parts[1::2]):
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "task.cql").write_text(script)
        ran = subprocess.run(sys.argv[1:] + ["-f", "task.cql"], cwd=folder, capture_output=True, text=True)
    # cqlsh counts lines from two on, and tells its own version first.
    errors = re.sub(r"^task\.cql:\d+:", "", ran.stderr, flags=re.M)
    output = re.sub(r"^WARNING: cqlsh was built against.*\n", "", ran.stdout)
    print("===", name)
    for title, text in (("", output), ("--- errors\n", errors)):
        if text:
            print(title + "\n".join(line.rstrip() for line in text.rstrip("\n").split("\n")))
    print("--- code", ran.returncode)
