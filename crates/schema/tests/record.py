#!/usr/bin/env python3
"""Records what a real Apache Cassandra answers to the scripts in golden/*.cql.

Usage: record.py HOST PORT [script ...]

Each script is one statement per line; empty lines and lines that start with `--` are kept as
comments. The answers go to golden/NAME.expected, which the tests replay without Cassandra:

    > STATEMENT
    = OK | OK CREATED TABLE ks name | USE ks | ROWS | ERROR code message
    ! a warning
    | column="text" column=0xhex ...

Speaks the native protocol v4 by itself, so that codes, warnings and events are seen as they are.
A value that differs from run to run (ids, the time of a drop) is replaced by `*`.
"""
import json
import pathlib
import re
import socket
import struct
import sys

TEXT, ASCII = 0x000D, 0x0001


class Connection:
    def __init__(self, host, port):
        self.socket = socket.create_connection((host, port))
        self.request(0x01, self.string_map({"CQL_VERSION": "3.0.0"}))

    @staticmethod
    def string(text):
        raw = text.encode()
        return struct.pack(">H", len(raw)) + raw

    def string_map(self, entries):
        body = struct.pack(">H", len(entries))
        return body + b"".join(self.string(k) + self.string(v) for k, v in entries.items())

    def read(self, count):
        data = b""
        while len(data) < count:
            part = self.socket.recv(count - len(data))
            if not part:
                raise EOFError("connection closed")
            data += part
        return data

    def request(self, opcode, body):
        self.socket.sendall(struct.pack(">BBhBi", 4, 0, 0, opcode, len(body)) + body)
        _, flags, _, opcode, length = struct.unpack(">BBhBi", self.read(9))
        return opcode, Reader(self.read(length), flags)

    def query(self, text):
        raw = text.encode()
        body = struct.pack(">i", len(raw)) + raw + struct.pack(">HB", 1, 0)
        return self.request(0x07, body)


class Reader:
    def __init__(self, data, flags):
        self.data, self.position, self.warnings = data, 0, []
        if flags & 0x08:
            self.warnings = [self.text() for _ in range(self.number(">H"))]

    def take(self, count):
        part = self.data[self.position:self.position + count]
        self.position += count
        return part

    def number(self, layout):
        return struct.unpack(layout, self.take(struct.calcsize(layout)))[0]

    def text(self):
        return self.take(self.number(">H")).decode()

    def value(self):
        length = self.number(">i")
        return None if length < 0 else self.take(length)

    def option(self):
        kind = self.number(">H")
        if kind == 0:
            self.text()
        elif kind in (0x20, 0x22):
            self.option()
        elif kind == 0x21:
            self.option(), self.option()
        elif kind == 0x30:
            self.text(), self.text()
            for _ in range(self.number(">H")):
                self.text(), self.option()
        elif kind == 0x31:
            for _ in range(self.number(">H")):
                self.option()
        return kind


def mask(column, text, is_system):
    """What differs from run to run."""
    if column == "create_statement":
        text = re.sub(r"ID = [0-9a-f-]{36}", "ID = *", text)
        text = re.sub(r"USING TIMESTAMP \d{16}", "USING TIMESTAMP *", text)
    return text


VARYING = {"host_id", "schema_version", "tokens", "truncated_at", "gossip_generation", "listen_port",
           "broadcast_port", "rpc_port", "cluster_name", "cluster", "range_ownership"}


def show_rows(reader):
    flags, count = reader.number(">i"), reader.number(">i")
    if flags & 1:
        reader.text(), reader.text()
    columns = []
    for _ in range(count):
        if not flags & 1:
            reader.text(), reader.text()
        columns.append((reader.text(), reader.option()))
    lines = []
    for _ in range(reader.number(">i")):
        values = [reader.value() for _ in columns]
        by_name = dict(zip([name for name, _ in columns], values))
        is_system = (by_name.get("keyspace_name") or b"").startswith(b"system")
        parts = []
        for (name, kind), value in zip(columns, values):
            if value is None:
                shown = "null"
            elif name in VARYING or (name == "id" and not is_system):
                shown = "*"
            elif kind in (TEXT, ASCII):
                shown = json.dumps(mask(name, value.decode(), is_system), ensure_ascii=False)
            else:
                shown = "0x" + value.hex()
            parts.append(f"{name}={shown}")
        lines.append("| " + " ".join(parts))
    return lines


def outcome(connection, statement):
    opcode, reader = connection.query(statement)
    warnings = ["! " + warning for warning in reader.warnings]
    if opcode == 0x00:
        code, message = reader.number(">i"), None
        message = reader.text()
        return [f"= ERROR {code:04x} {json.dumps(message, ensure_ascii=False)}"] + warnings
    kind = reader.number(">i")
    if kind == 1:
        return ["= OK"] + warnings
    if kind == 2:
        lines = show_rows(reader)
        if statement.upper().startswith("SELECT"):
            lines.sort()
        return ["= ROWS"] + warnings + lines
    if kind == 3:
        return ["= USE " + reader.text()] + warnings
    if kind == 5:
        change, target = reader.text(), reader.text()
        names = [reader.text()] + ([reader.text()] if target != "KEYSPACE" else [])
        return ["= OK " + " ".join([change, target] + names)] + warnings
    raise ValueError(f"result kind {kind} for {statement}")


def main():
    host, port = sys.argv[1], int(sys.argv[2])
    folder = pathlib.Path(__file__).parent / "golden"
    names = sys.argv[3:] or sorted(path.stem for path in folder.glob("*.cql"))
    for name in names:
        connection = Connection(host, port)
        lines = []
        for line in (folder / f"{name}.cql").read_text().splitlines():
            if not line.strip() or line.startswith("--"):
                continue
            lines.append("> " + line)
            lines.extend(outcome(connection, line))
        (folder / f"{name}.expected").write_text("\n".join(lines) + "\n")
        print(name, sum(line.startswith("> ") for line in lines), "statements")


if __name__ == "__main__":
    main()
