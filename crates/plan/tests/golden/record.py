"""Asks a Cassandra for its answers to the statements of *.cql and writes them to *.golden.

    record.py HOST PORT FILE.cql ...

A file holds one statement a line. Lines that start with `ddl ` build the schema, in the keyspace
`golden`. Lines that start with `prepare ` are only prepared, the others are executed. An answer is
a line that starts with `error` (code and message), `columns` (the result's columns), or, after
`prepare`, `markers` (what they take), `key` (which of them are the partition key) and `columns`.
"""
import re
import sys

from cassandra import InvalidRequest
from cassandra.cluster import Cluster
from cassandra.protocol import ErrorMessage, SyntaxException


def thaw(text):
    previous = None
    while previous != text:
        previous = text
        text = re.sub(r"frozen<((?:[^<>]|<[^<>]*>)*)>", r"\1", text)
    return text


def type_text(cql_type):
    return thaw(cql_type.cql_parameterized_type()).replace("varchar", "text").replace("org.apache.cassandra.db.marshal.VectorType", "vector")


def error_text(error):
    match = re.search(r'code=(\d+) \[[^\]]*\] message="(.*)"', str(error), re.S)
    return "error %s %s" % (match.group(1), match.group(2).replace("\n", "\\n")) if match else None


def columns_text(metadata):
    return "columns " + "; ".join("%s %s" % (c[2], type_text(c[3])) for c in metadata or [])


def answer(session, line):
    try:
        if line.startswith("prepare "):
            prepared = session.prepare(line[len("prepare "):])
            markers = "; ".join("%s %s" % (c.name, type_text(c.type)) for c in prepared.column_metadata)
            keys = " ".join(str(i) for i in prepared.routing_key_indexes or [])
            return ["markers " + markers, "key " + keys, columns_text(prepared.result_metadata)]
        future = session.execute_async(line)
        result = future.result()
        names, types = result.column_names or [], result.column_types or []
        return ["columns " + "; ".join("%s %s" % (n, type_text(t)) for n, t in zip(names, types))]
    except Exception as error:
        text = error_text(error)
        if text is None:
            raise
        return [text]


def main():
    cluster = Cluster([sys.argv[1]], port=int(sys.argv[2]))
    session = cluster.connect()
    session.default_fetch_size = None
    for path in sys.argv[3:]:
        session.execute("DROP KEYSPACE IF EXISTS golden")
        session.execute("CREATE KEYSPACE golden WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
        session.set_keyspace("golden")
        lines = []
        for line in open(path):
            line = line.strip()
            if not line or line.startswith("--"):
                continue
            lines.append(line)
            if line.startswith("ddl "):
                session.execute(line[len("ddl "):])
            else:
                try:
                    lines.extend("    " + part for part in answer(session, line))
                except Exception as error:
                    lines.pop()
                    sys.stderr.write("skipped %s: %r\n" % (line, error))
                    cluster = Cluster([sys.argv[1]], port=int(sys.argv[2]))
                    session = cluster.connect("golden")
                    session.default_fetch_size = None
        with open(path.replace(".cql", ".golden"), "w") as out:
            out.write("\n".join(lines) + "\n")


main()
