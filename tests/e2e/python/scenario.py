"""The scenario of Python's cassandra-driver and of its fork scylla-driver (both import as `cassandra`).

    python scenario.py NAME HOST PORT PROTOCOL_VERSION

NAME is the driver's; PROTOCOL_VERSION the newest version it speaks, which it must agree on by itself.
"""

import datetime
import decimal
import re
import struct
import sys
import time
import uuid

from cassandra import AlreadyExists, InvalidRequest
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.concurrent import execute_concurrent_with_args
from cassandra.policies import ConstantReconnectionPolicy, RetryPolicy, RoundRobinPolicy, TokenAwarePolicy
from cassandra.protocol import OverloadedErrorMessage, SyntaxException
from cassandra.query import UNSET_VALUE, BatchStatement, BatchType, SimpleStatement
from cassandra.util import Date, Duration, OrderedMapSerializedKey, Time, sortedset

from harness import (check, check_beyond_first, equal, eventually, raises, restart_server, say)

NAME, HOST, PORT, NEWEST = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
KEYSPACE = "e2e_" + NAME.replace("-", "_")
PAGE, PARTITIONS, ROWS_EACH = 100, 5, 1000

# Type, and values that must come back as they went in: the ends of the range, zero, something plain.
SCALARS = [
    ("ascii", ["", "plain", "~!@#$%^&*()"]),
    ("bigint", [0, -1, 2**63 - 1, -(2**63)]),
    ("blob", [b"", b"\x00\xff", bytes(range(256)) * 256]),
    ("boolean", [True, False]),
    ("date", [Date(0), Date("1969-12-31"), Date("9999-12-31"), Date(datetime.date(2024, 2, 29))]),
    ("decimal", [decimal.Decimal(t) for t in ("0", "-1.50", "1E+10", "123456789012345678901234567890.123")]),
    ("double", [0.0, -1.5, 1.7976931348623157e308, 5e-324, float("inf")]),
    ("duration", [Duration(0, 0, 0), Duration(14, 3, 3_600_000_000_000), Duration(-1, -2, -3)]),
    ("float", [0.0, -1.5, 3.4028234663852886e38]),
    ("inet", ["127.0.0.1", "255.255.255.255", "::1", "2001:db8::8a2e:370:7334"]),
    ("int", [0, -1, 2**31 - 1, -(2**31)]),
    ("smallint", [0, -1, 2**15 - 1, -(2**15)]),
    ("text", ["", "château", "日本語 🙂", "x" * 70_000]),
    ("time", [Time(0), Time(1), Time("13:14:15.123456789"), Time(86_399_999_999_999)]),
    ("timestamp", [datetime.datetime(1970, 1, 1), datetime.datetime(1900, 1, 1, 12),
                   datetime.datetime(2038, 1, 19, 3, 14, 8, 123000)]),
    ("timeuuid", [uuid.UUID("50554d6e-29bb-11e5-b345-feff819cdc9f")]),
    ("tinyint", [0, -1, 127, -128]),
    ("uuid", [uuid.UUID(int=0), uuid.UUID("f81d4fae-7dec-41d0-a765-00a0c91e6bf6"), uuid.UUID(int=2**128 - 1)]),
    ("varchar", ["same as text"]),
    ("varint", [0, -1, 128, -129, 2**63, -(2**200), 10**60]),
]

COLLECTIONS = [
    ("list<int>", [[1], [3, 1, 3, 2]]),
    ("set<text>", [sortedset(["a"]), sortedset(["b", "a", "c"])]),
    ("map<text, int>", [{"a": 1}, {"b": 2, "a": 1}]),
    ("map<uuid, frozen<list<text>>>", [{uuid.UUID(int=7): ["x", "y"]}]),
    ("frozen<list<frozen<set<int>>>>", [[], [sortedset([2, 1]), sortedset([])]]),
    ("frozen<map<int, text>>", [{}, {2: "b", 1: "a"}]),
]


class Scenario:
    def __init__(self):
        # One connection that changes things and one that only watches.
        self.cluster = self.connected()
        self.session = self.cluster.connect()
        self.watcher = self.connected()
        self.watcher.connect()

    @staticmethod
    def connected(**options):
        profile = ExecutionProfile(load_balancing_policy=TokenAwarePolicy(RoundRobinPolicy()), request_timeout=30)
        options = {"compression": True, **options}
        return Cluster([HOST], port=PORT, execution_profiles={EXEC_PROFILE_DEFAULT: profile},
                       reconnection_policy=ConstantReconnectionPolicy(0.2, None), connect_timeout=15,
                       control_connection_timeout=15, schema_event_refresh_window=0,
                       idle_heartbeat_interval=1, **options)

    def run(self):
        check("newest protocol version", lambda: equal(self.cluster.protocol_version, NEWEST))
        say(f"protocol v{self.cluster.protocol_version}")
        check("create keyspace and table", self.create_schema)
        check("schema change event", self.schema_event)
        for cql_type, values in SCALARS:
            check(f"type {cql_type}", lambda: self.round_trip(cql_type, values))
        check("type counter", self.counter)
        for cql_type, values in COLLECTIONS:
            check_beyond_first(f"type {cql_type}", lambda: self.round_trip(cql_type, values))
        check_beyond_first("type tuple", self.tuples)
        check_beyond_first("type udt", self.udts)
        check_beyond_first("type vector", self.vectors)
        check("null and unset", self.null_and_unset)
        check("write 5,000 rows", self.write_rows)
        check("page through 5,000 rows by 100", self.page_all)
        check("page through one partition in reverse", self.page_reverse)
        check("index on rows that are there, by pages", self.index)
        check("logged batch", self.logged_batch)
        check("tokens equal the server's", self.tokens)
        check("token-aware routing", self.routing)
        check("syntax error", self.syntax_error)
        check("missing table", self.missing_table)
        check("keyspace exists already", self.already_exists)
        if self.session.execute("SELECT * FROM system_virtual_schema.keyspaces WHERE keyspace_name = 'system_helenus'").one():
            check("charges of requests", self.charges)
            check("a budget that is spent", self.throttled)
            check("a retry policy under overload", self.retried)
        else:
            say("skip charges and budgets: this is not Helenus")
        check("older protocol versions, snappy and lz4", self.older_versions)
        select = self.session.prepare("SELECT v FROM paged WHERE pk = ? AND ck = ?")
        if restart_server():
            check("reconnect after a restart", lambda: self.after_restart(select))
        else:
            say("skip reconnect after a restart: not our server")
        self.session.execute(f"DROP KEYSPACE {KEYSPACE}")
        self.watcher.shutdown()
        self.cluster.shutdown()

    def create_schema(self):
        run = self.session.execute
        run(f"DROP KEYSPACE IF EXISTS {KEYSPACE}")
        run(f"CREATE KEYSPACE {KEYSPACE} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}")
        self.session.set_keyspace(KEYSPACE)
        run("CREATE TABLE paged (pk int, ck int, v text, PRIMARY KEY (pk, ck))")
        run("CREATE TABLE plain (id int PRIMARY KEY, a text, b text)")
        run("CREATE TABLE keyed (a text, b int, c text, PRIMARY KEY ((a, b), c))")
        run("CREATE TABLE named (name text PRIMARY KEY, v int)")
        tables = self.cluster.metadata.keyspaces[KEYSPACE].tables
        equal(sorted(tables), ["keyed", "named", "paged", "plain"])
        equal([c.name for c in tables["keyed"].partition_key], ["a", "b"])
        equal([c.name for c in tables["keyed"].clustering_key], ["c"])

    def schema_event(self):
        """The watching connection learns of the change only by the pushed event."""
        self.session.execute("CREATE TABLE announced (id int PRIMARY KEY)")
        keyspaces = self.watcher.metadata.keyspaces
        eventually("the table is announced", lambda: "announced" in keyspaces[KEYSPACE].tables)
        self.session.execute("ALTER TABLE announced ADD later text")
        eventually("the column is announced", lambda: "later" in keyspaces[KEYSPACE].tables["announced"].columns)
        self.session.execute("DROP TABLE announced")
        eventually("the drop is announced", lambda: "announced" not in keyspaces[KEYSPACE].tables)

    def round_trip(self, cql_type, values):
        self.session.execute(f"CREATE TABLE type_check (id int PRIMARY KEY, v {cql_type})")
        insert = self.session.prepare("INSERT INTO type_check (id, v) VALUES (?, ?)")
        select = self.session.prepare("SELECT v FROM type_check WHERE id = ?")
        for index, value in enumerate(values):
            self.session.execute(insert, (index, value))
            got = self.session.execute(select, (index,)).one().v
            equal(dict(got) if isinstance(got, OrderedMapSerializedKey) else got, value)
        self.session.execute("DROP TABLE type_check")

    def counter(self):
        self.session.execute("CREATE TABLE counted (id int PRIMARY KEY, n counter)")
        add = self.session.prepare("UPDATE counted SET n = n + ? WHERE id = ?")
        for step in (5, -2, 2**40):
            self.session.execute(add, (step, 1))
        equal(self.session.execute("SELECT n FROM counted WHERE id = 1").one().n, 3 + 2**40)

    def tuples(self):
        self.round_trip("tuple<int, text, uuid>", [(1, "one", uuid.UUID(int=1)), (2, None, None)])
        self.round_trip("tuple<int, frozen<tuple<text, frozen<list<int>>>>>", [(1, ("deep", [1, 2]))])

    def udts(self):
        self.session.execute("CREATE TYPE address (street text, number int)")
        self.session.execute("CREATE TYPE person (name text, home frozen<address>, phones frozen<list<text>>)")
        address, person = (self.cluster.metadata.keyspaces[KEYSPACE].user_types[n] for n in ("address", "person"))
        equal(address.field_names, ["street", "number"])
        equal(person.field_types[1], "frozen<address>")
        self.session.execute("CREATE TABLE people (id int PRIMARY KEY, p person, old frozen<person>)")
        insert = self.session.prepare("INSERT INTO people (id, p, old) VALUES (?, ?, ?)")
        theo = ("theo", ("high street", 7), ["1", "2"])
        self.session.execute(insert, (1, theo, ("ann", None, None)))
        row = self.session.execute("SELECT p, old FROM people WHERE id = 1").one()
        equal((row.p.name, tuple(row.p.home), row.p.phones), theo)
        equal(tuple(row.old), ("ann", None, None))
        self.session.execute("UPDATE people SET p.name = 'theodor' WHERE id = 1")
        equal(self.session.execute("SELECT p.name FROM people WHERE id = 1").one()[0], "theodor")

    def vectors(self):
        self.round_trip("vector<float, 3>", [[1.0, -2.5, 0.0]])
        self.round_trip("vector<text, 2>", [["short", "longer"]])

    def null_and_unset(self):
        insert = self.session.prepare("INSERT INTO plain (id, a, b) VALUES (?, ?, ?)")
        select = self.session.prepare("SELECT a, b FROM plain WHERE id = ?")
        self.session.execute(insert, (1, "a", "b"))
        self.session.execute(insert, (1, None, UNSET_VALUE))
        equal(tuple(self.session.execute(select, (1,)).one()), (None, "b"))

    def write_rows(self):
        insert = self.session.prepare("INSERT INTO paged (pk, ck, v) VALUES (?, ?, ?)")
        rows = [(pk, ck, f"row {pk} {ck}") for ck in range(ROWS_EACH) for pk in range(PARTITIONS)]
        execute_concurrent_with_args(self.session, insert, rows, concurrency=100, raise_on_first_error=True)

    def pages(self, query, parameters=None):
        """The rows of each page, read one request at a time."""
        statement = SimpleStatement(query, fetch_size=PAGE)
        result = self.session.execute(statement, parameters)
        pages = [list(result.current_rows)]
        while result.has_more_pages:
            result.fetch_next_page()
            pages.append(list(result.current_rows))
        return pages

    @staticmethod
    def check_full(pages, count):
        """Full pages only. Whether the last one says "more" and an empty page follows is the server's choice."""
        full = pages if pages[-1] else pages[:-1]
        equal([len(page) for page in full], [PAGE] * count)

    def page_all(self):
        pages = self.pages("SELECT token(pk) AS t, pk, ck, v FROM paged")
        self.check_full(pages, PARTITIONS * ROWS_EACH // PAGE)
        rows = [row for page in pages for row in page]
        equal([(r.t, r.ck) for r in rows], sorted((r.t, r.ck) for r in rows))
        equal({(r.pk, r.ck, r.v) for r in rows},
              {(pk, ck, f"row {pk} {ck}") for pk in range(PARTITIONS) for ck in range(ROWS_EACH)})

    def index(self):
        run = self.session.execute
        run("CREATE TABLE IF NOT EXISTS indexed (pk int, ck int, v int, PRIMARY KEY (pk, ck))")
        insert = self.session.prepare("INSERT INTO indexed (pk, ck, v) VALUES (?, ?, ?)")
        rows = [(n % 10, n, n % 3) for n in range(1_500)]
        execute_concurrent_with_args(self.session, insert, rows, concurrency=100, raise_on_first_error=True)
        run("CREATE INDEX IF NOT EXISTS by_v ON indexed (v)")
        query = "SELECT token(pk) AS t, pk, ck FROM indexed WHERE v = %s"
        eventually("the index answers", lambda: len(list(run(query, (1,)))) == 500)
        run("UPDATE indexed SET v = 1 WHERE pk = 0 AND ck = 0")
        run("DELETE FROM indexed WHERE pk = 1")
        wanted = {(pk, ck) for pk, ck, v in rows if v == 1 and pk != 1} | {(0, 0)}
        found = [row for page in self.pages(query, (1,)) for row in page]
        equal([(r.t, r.ck) for r in found], sorted((r.t, r.ck) for r in found))
        equal(len(found), len(wanted))
        equal({(r.pk, r.ck) for r in found}, wanted)
        one = run("SELECT ck FROM indexed WHERE pk = %s AND v = %s", (4, 1))
        equal([r.ck for r in one], sorted(ck for pk, ck in wanted if pk == 4))

    def page_reverse(self):
        pages = self.pages("SELECT ck FROM paged WHERE pk = %s ORDER BY ck DESC", (3,))
        self.check_full(pages, ROWS_EACH // PAGE)
        equal([row.ck for page in pages for row in page], list(reversed(range(ROWS_EACH))))

    def logged_batch(self):
        batch = BatchStatement(batch_type=BatchType.LOGGED)
        named = self.session.prepare("INSERT INTO named (name, v) VALUES (?, ?)")
        batch.add(named, ("one", 1))
        batch.add(named, ("two", 2))
        batch.add(SimpleStatement("INSERT INTO plain (id, a) VALUES (%s, %s)"), (20, "batched"))
        self.session.execute(batch)
        rows = self.session.execute("SELECT name, v, writetime(v) AS w FROM named WHERE name IN ('one', 'two')").all()
        equal(sorted((r.name, r.v) for r in rows), [("one", 1), ("two", 2)])
        equal(len({r.w for r in rows}), 1)
        equal(self.session.execute("SELECT a FROM plain WHERE id = 20").one().a, "batched")

    def tokens(self):
        driver_token = self.cluster.metadata.token_map.token_class.from_key
        insert = self.session.prepare("INSERT INTO named (name, v) VALUES (?, 0)")
        select = self.session.prepare("SELECT token(name) FROM named WHERE name = ?")
        for name in ("château", "a", "x" * 40, "日本語", "15 bytes exactly"[:15], "16 bytes exactly"):
            bound = insert.bind((name,))
            self.session.execute(bound)
            equal(self.session.execute(select, (name,)).one()[0], driver_token(bound.routing_key).value)
        equal(driver_token(insert.bind(("château",)).routing_key).value, 9114062196463836094)

        insert = self.session.prepare("INSERT INTO keyed (a, b, c) VALUES (?, ?, 'c')")
        select = self.session.prepare("SELECT token(a, b) FROM keyed WHERE a = ? AND b = ?")
        for key in (("château", 1), ("", 0), ("z", -1)):
            bound = insert.bind(key)
            self.session.execute(bound)
            equal(self.session.execute(select, key).one()[0], driver_token(bound.routing_key).value)

    def routing(self):
        """The ring the driver read gives every key an owner, and the driver asks that one, unless it learned of a better one."""
        metadata = self.cluster.metadata
        bound = self.session.prepare("SELECT v FROM named WHERE name = ?").bind(("château",))
        owners = metadata.get_replicas(KEYSPACE, bound.routing_key)
        equal(len(owners), 1)
        wanted = owners[0].host_id
        if hasattr(metadata, "_tablets"):
            token = metadata.token_map.token_class.from_key(bound.routing_key)
            learned = metadata._tablets.get_tablet_for_key(KEYSPACE, "named", token)
            wanted = learned.replicas[0][0] if learned else wanted
        result = self.session.execute(bound)
        equal(result.response_future.coordinator_host.host_id, wanted)

    def syntax_error(self):
        raises(SyntaxException, "line 1:", lambda: self.session.execute("SELEC * FROM plain"))

    def missing_table(self):
        raises(InvalidRequest, "nowhere", lambda: self.session.execute("SELECT * FROM nowhere"))
        raises(InvalidRequest, "nowhere", lambda: self.session.prepare("SELECT * FROM nowhere"))

    def already_exists(self):
        raises(AlreadyExists, KEYSPACE, lambda: self.session.execute(
            f"CREATE KEYSPACE {KEYSPACE} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}"))

    def sent(self, statement, values=None):
        return self.session.execute_async(statement, values, custom_payload={"RequestCharge": b""})

    def charge_of(self, statement, values=None):
        """Runs a statement; its charge is in the answer, also if that is an error."""
        return self.charge_told(self.sent(statement, values))

    @staticmethod
    def charge_told(future):
        try:
            future.result()
        except Exception as error:
            return struct.unpack(">d", future.custom_payload["RequestCharge"])[0], error
        return struct.unpack(">d", future.custom_payload["RequestCharge"])[0], None

    def charges(self):
        self.session.execute("CREATE TABLE charged (id int PRIMARY KEY, v blob)")
        insert = self.session.prepare("INSERT INTO charged (id, v) VALUES (?, ?)")
        select = self.session.prepare("SELECT * FROM charged WHERE id = ?")
        for kib, read, write in ((1, 1.00, 4.95), (4, 1.14, 6.67), (64, 4.76, 22.67), (1024, 145.90, 625.00)):
            equal(self.charge_of(insert, (kib, bytes(kib * 1024 - 4))), (write, None))
            equal(self.charge_of(select, (kib,)), (read, None))
        equal(self.charge_of("SELEC")[0], 1.0)
        plan = self.session.execute("EXPLAIN SELECT * FROM charged WHERE id = 1").one()
        equal((plan.estimated_charge, len(plan.physical_partitions)), (1.0, 1))

    def throttled(self):
        """Twice what the budget allows: refused in the text that retry policies read, and who waits is served."""
        self.session.execute("CREATE TABLE limited (id int PRIMARY KEY, v text) WITH cosmosdb_provisioned_throughput = 400")
        insert = self.session.prepare("INSERT INTO limited (id, v) VALUES (?, ?)")
        refused, spent = 0, 0.0
        for first in range(0, 160, 8):
            # Eight at a time, so that a cluster on a slow machine is asked for more than its budget, too.
            for id, future in [(id, self.sent(insert, (id, "v"))) for id in range(first, first + 8)]:
                charge, error = self.charge_told(future)
                while error is not None:
                    refused += 1
                    wait_ms = int(re.search(r", RetryAfterMs=(\d+), ", str(error)).group(1))
                    equal(charge, 0.0)
                    time.sleep(wait_ms / 1000)
                    charge, error = self.charge_of(insert, (id, "v"))
                spent += charge
        equal(round(spent, 2), round(160 * 4.95, 2))
        if refused == 0:
            raise AssertionError("nothing was refused")
        row = self.session.execute("SELECT * FROM system_helenus.throughput WHERE keyspace_name = %s AND table_name = 'limited'", (KEYSPACE,)).one()
        equal((row.mode, row.maximum_ru_s, row.throttled >= refused), ("manual", 400, True))

    def retried(self):
        """Eight at a time against a budget for eighty a second: the driver itself retries what is refused, and nothing fails."""
        self.session.execute("CREATE TABLE retried (id int PRIMARY KEY, v text) WITH cosmosdb_provisioned_throughput = 400")
        insert = self.session.prepare("INSERT INTO retried (id, v) VALUES (?, ?)")
        insert.retry_policy, insert.is_idempotent = WaitsAsTold(), True
        policy = insert.retry_policy
        began = time.monotonic()
        done = execute_concurrent_with_args(self.session, insert, [(id, "v") for id in range(160)], concurrency=8)
        took = time.monotonic() - began
        equal([result.result_or_exc for result in done if not result.success], [])
        eventually("the rows are counted", lambda: self.session.execute("SELECT count(*) FROM retried").one()[0] == 160)
        if policy.refused == 0:
            raise AssertionError("nothing was refused")
        # No faster than the budget, with what it holds for a moment.
        if took < 160 * 4.95 / 400 - 0.5:
            raise AssertionError(f"{took:.1f} s are too few for this budget")

    def older_versions(self):
        for version, compression in ((3, "snappy"), (4, "snappy"), (4, "lz4"), (4, False)):
            cluster = self.connected(protocol_version=version, compression=compression)
            session = cluster.connect(KEYSPACE)
            rows = session.execute("SELECT ck FROM paged WHERE pk = 2 LIMIT 200").all()
            equal([row.ck for row in rows], list(range(200)))
            cluster.shutdown()

    def after_restart(self, select):
        """The same session, and a statement that the server has to be told again."""
        eventually("the session answers again", lambda: self.session.execute(select, (4, 999)).one().v == "row 4 999")
        eventually("all rows are there", lambda: self.session.execute("SELECT count(*) FROM paged").one()[0] == 5000)
        # The pushed events come again as well.
        self.session.execute("CREATE TABLE after_restart (id int PRIMARY KEY)")
        eventually("events arrive again", lambda: "after_restart" in self.watcher.metadata.keyspaces[KEYSPACE].tables)


class WaitsAsTold(RetryPolicy):
    """What the public Java extension does, by its rules of reading: a field of exactly two parts, a number without blanks."""

    # Far more than there, so that a busy machine does not decide: eight wait for the same moment.
    RETRIES_MAX = 100

    def __init__(self):
        self.refused = 0

    def on_request_error(self, query, consistency, error, retry_num):
        if not isinstance(error, OverloadedErrorMessage) or retry_num >= self.RETRIES_MAX:
            return self.RETHROW, None
        fields = (field.split("=") for field in error.message.split(","))
        waits = [int(field[1]) for field in fields if len(field) == 2 and field[0].strip() == "RetryAfterMs"]
        self.refused += 1
        time.sleep(waits[0] / 1000)
        return self.RETRY, consistency


if __name__ == "__main__":
    Scenario().run()
