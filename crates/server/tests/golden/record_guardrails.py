#!/usr/bin/env python3
"""Runs guardrails.tasks on a Cassandra and writes what it said to guardrails.out.

    record_guardrails.py DIR PORT START

START is the script that starts a Cassandra: `START DIR PORT LINE...`, with lines for its configuration.
"""
import os
import signal
import socket
import struct
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
LEVELS = ["ANY", "ONE", "TWO", "THREE", "QUORUM", "ALL", "LOCAL_QUORUM", "EACH_QUORUM", "SERIAL", "LOCAL_SERIAL", "LOCAL_ONE"]


class Client:
    def __init__(self, port, role, version=4):
        self.version = version
        self.stream = socket.create_connection(("127.0.0.1", port))
        self.ask(1, b"\0\1" + short("CQL_VERSION") + short("3.0.0"))
        token = f"\0{role}\0{role}".encode()
        assert self.ask(15, struct.pack(">i", len(token)) + token)[0] == 16

    def receive(self, count):
        data = b""
        while len(data) < count:
            data += self.stream.recv(count - len(data))
        return data

    def ask(self, opcode, body):
        self.stream.sendall(struct.pack(">BBhBi", self.version, 0, 1, opcode, len(body)) + body)
        _, flags, _, opcode, length = struct.unpack(">BBhBi", self.receive(9))
        body, warnings = self.receive(length), []
        if flags & 8:
            (count,), body = struct.unpack(">H", body[:2]), body[2:]
            for _ in range(count):
                (size,) = struct.unpack(">H", body[:2])
                warnings.append(body[2 : 2 + size].decode())
                body = body[2 + size :]
        return opcode, body, warnings


def short(text):
    return struct.pack(">H", len(text.encode())) + text.encode()


def long(text):
    return struct.pack(">i", len(text.encode())) + text.encode()


def parameters(words):
    flags, more, level = 0, b"", "ONE"
    for word in words:
        if word in LEVELS:
            level = word
    for word in words:
        if word.startswith("page="):
            flags, more = flags | 4, more + struct.pack(">i", int(word[5:]))
    for word in words:
        if word.startswith("serial="):
            flags, more = flags | 16, more + struct.pack(">H", LEVELS.index(word[7:]))
    return struct.pack(">HB", LEVELS.index(level), flags) + more


def told(answer):
    opcode, body, warnings = answer
    lines = ["ok"]
    if opcode == 0:
        code, length = struct.unpack(">iH", body[:6])
        lines = [f"{code:04x} {body[6:6 + length].decode()}"]
    # About prepared statements as such, which Helenus does not warn of.
    return lines + [f"warning: {it}" for it in warnings if not it.startswith("`USE <keyspace>`")]


def run(client, words, text, kept):
    if "batch" in words:
        texts = text.split("; ")
        body = struct.pack(">BH", 0, len(texts)) + b"".join(b"\0" + long(it) + b"\0\0" for it in texts)
        level = next((it for it in words if it in LEVELS), "ONE")
        return client.ask(13, body + struct.pack(">HB", LEVELS.index(level), 0))
    if "again" in words:
        return client.ask(10, short_bytes(kept[text]) + parameters(words))
    if "prepare" in words or "execute" in words:
        answer = client.ask(9, long(text))
        if answer[0] == 0 or "prepare" in words:
            if answer[0] != 0:
                kept[text] = prepared_id(answer[1])
            return answer
        return client.ask(10, short_bytes(prepared_id(answer[1])) + parameters(words))
    return client.ask(7, long(text) + parameters(words))


def prepared_id(body):
    (length,) = struct.unpack(">H", body[4:6])
    return body[6 : 6 + length]


def short_bytes(data):
    return struct.pack(">H", len(data)) + data


def yaml(name, value):
    if name.endswith(("_warn", "_fail")):
        return f"{name}_threshold: {value}"
    return f"{name}: [{value}]" if "levels" in name else f"{name}: {value}"


def main():
    folder, port, start = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    lines = [it.rstrip("\n") for it in open(os.path.join(HERE, "guardrails.tasks")) if it.strip() and it[0] != "#"]
    settings = [yaml(*it.split()[1:]) for it in lines if it.startswith("set ")]
    auth = ["authenticator: PasswordAuthenticator", "authorizer: CassandraAuthorizer"]
    print(subprocess.check_output([start, folder, str(port), *auth, *settings], text=True))
    pid = int(open(os.path.join(folder, "pid")).read())
    try:
        # The first role is made a moment after the port is open.
        time.sleep(5)
        admin = Client(port, "cassandra")
        for text in [
            "CREATE ROLE joe WITH PASSWORD = 'joe' AND LOGIN = true",
            "CREATE ROLE ann WITH PASSWORD = 'ann' AND LOGIN = true",
            "GRANT ALL ON ALL KEYSPACES TO joe",
        ]:
            assert admin.ask(7, long(text) + parameters([]))[0] == 8, text
        clients = {("super", 4): admin}
        out, kept = [], {}
        for line in lines:
            if line.startswith("set "):
                continue
            head, text = line.split(": ", 1)
            role, *words = head.split()
            version = 3 if "v3" in words else 4
            client = clients.get((role, version)) or clients.setdefault((role, version), Client(port, role, version))
            for size in ["250", "350", "1500", "2500"]:
                text = text.replace(f"<{size}>", "x" * int(size))
            out += [line, *("    " + it for it in told(run(client, words, text, kept)))]
        with open(os.path.join(HERE, "guardrails.out"), "w") as file:
            file.write("\n".join(out) + "\n")
    finally:
        os.kill(pid, signal.SIGTERM)


main()
