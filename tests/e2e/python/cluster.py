"""A cluster of four nodes as Python's drivers see it: both cassandra-driver and scylla-driver (both import as `cassandra`).

    python cluster.py NAME HOST PORT PROTOCOL_VERSION

HOST is one of the nodes. `KILL PLEASE` has another one killed, `RESTART PLEASE` has it started again.
"""

import sys
import threading
import time

from cassandra import ConsistencyLevel
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.policies import ConstantReconnectionPolicy, RoundRobinPolicy, TokenAwarePolicy
from cassandra.query import SimpleStatement

from harness import ask_harness, check, equal, eventually, say

NAME, HOST, PORT, NEWEST = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
KEYSPACE = "e2e_cluster_" + NAME.replace("-", "_")
NODES, KEYS = 4, 64


def connected(policy):
    # What is right whichever node is asked: at LOCAL_ONE a node may be a moment behind.
    profile = ExecutionProfile(load_balancing_policy=policy, request_timeout=30,
                               consistency_level=ConsistencyLevel.LOCAL_QUORUM)
    return Cluster([HOST], port=PORT, execution_profiles={EXEC_PROFILE_DEFAULT: profile}, connect_timeout=15,
                   control_connection_timeout=15, schema_event_refresh_window=0, status_event_refresh_window=0,
                   topology_event_refresh_window=0, reconnection_policy=ConstantReconnectionPolicy(0.2, None))


class Load:
    """Writes and reads back under a thread of its own; every error is kept."""

    def __init__(self, session):
        self.insert = session.prepare("INSERT INTO loaded (id, v) VALUES (?, ?)")
        self.select = session.prepare("SELECT v FROM loaded WHERE id = ?")
        self.insert.is_idempotent = self.select.is_idempotent = True
        self.session, self.errors, self.written, self.longest = session, [], 0, 0.0
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.stopping.is_set():
            began = time.monotonic()
            try:
                self.session.execute(self.insert, (self.written, f"v{self.written}"))
                equal(self.session.execute(self.select, (self.written,)).one().v, f"v{self.written}")
            except Exception as error:
                self.errors.append(error)
            self.longest = max(self.longest, time.monotonic() - began)
            self.written += 1

    def go_on(self, count):
        before = self.written
        eventually(f"{count} more are written", lambda: self.written >= before + count)

    def end(self):
        self.stopping.set()
        self.thread.join()
        equal(self.errors, [])


class Scenario:
    def __init__(self):
        # One that asks every node in turn, and one that asks the owner of a token.
        self.spread, self.aware = connected(RoundRobinPolicy()), connected(TokenAwarePolicy(RoundRobinPolicy()))
        self.session, self.owner_session = self.spread.connect(), self.aware.connect()

    def run(self):
        check("newest protocol version", lambda: equal(self.spread.protocol_version, NEWEST))
        check("all nodes are found", self.nodes)
        check("a definition is agreed on at once", self.definition)
        check("every node answers", self.every_node)
        check("an owner of every token answers", self.owners)
        check("pages go on at other nodes", self.pages)
        check("leaders are learned from answers", self.leaders)
        check("a node is killed under load", self.killed)
        self.session.execute(f"DROP KEYSPACE {KEYSPACE}")
        self.aware.shutdown()
        self.spread.shutdown()

    def nodes(self):
        eventually("all nodes are up", lambda: sum(1 for host in self.spread.metadata.all_hosts() if host.is_up) == NODES)
        hosts = self.spread.metadata.all_hosts()
        equal(len({host.host_id for host in hosts}), NODES)
        equal({(host.datacenter, host.release_version) for host in hosts}, {("datacenter1", "5.0.5")})
        ring = self.spread.metadata.token_map
        equal((len(ring.ring), len(set(ring.token_to_host_owner.values()))), (16 * NODES, NODES))

    def definition(self):
        for statement in (f"DROP KEYSPACE IF EXISTS {KEYSPACE}",
                          f"CREATE KEYSPACE {KEYSPACE} WITH replication = {{'class': 'NetworkTopologyStrategy', 'datacenter1': 3}}"):
            equal(self.session.execute_async(statement).result().response_future.is_schema_agreed, True)
        for session in (self.session, self.owner_session):
            session.set_keyspace(KEYSPACE)
        for statement in ("CREATE TABLE t (id int, c int, v text, PRIMARY KEY (id, c))", "CREATE TABLE n (id int PRIMARY KEY, n counter)",
                          "CREATE TABLE loaded (id int PRIMARY KEY, v text)", "CREATE INDEX by_v ON t (v)"):
            self.session.execute(statement)
        versions = {self.session.execute("SELECT schema_version FROM system.local").one()[0] for _ in range(2 * NODES)}
        equal(len(versions), 1)

    def every_node(self):
        """Each write, and each read of it, is asked of another node."""
        insert = self.session.prepare("INSERT INTO t (id, c, v) VALUES (?, ?, ?)")
        select = self.session.prepare("SELECT v FROM t WHERE id = ? AND c = ?")
        asked = set()

        def run(*statement):
            result = self.session.execute(*statement)
            asked.add(result.response_future.coordinator_host.address)
            return result

        for key in range(KEYS):
            run(insert, (key, 0, f"v{key % 2}"))
            equal(run(select, (key, 0)).one().v, f"v{key % 2}")
            run("UPDATE n SET n = n + 1 WHERE id = 1")
            equal(run("INSERT INTO t (id, c) VALUES (%s, 1) IF NOT EXISTS", (key % 8,)).one().applied, key < 8)
        equal(len(asked), NODES)
        for _ in range(NODES):
            equal(self.session.execute("SELECT n FROM n WHERE id = 1").one().n, KEYS)
            equal(self.session.execute("SELECT count(*) FROM t").one()[0], KEYS + 8)
            equal(len(list(self.session.execute("SELECT id FROM t WHERE v = 'v1'"))), KEYS // 2)

    def owners(self):
        select = self.owner_session.prepare("SELECT v FROM t WHERE id = ? AND c = 0")
        for key in range(KEYS):
            bound = select.bind((key,))
            owners = self.aware.metadata.get_replicas(KEYSPACE, bound.routing_key)
            equal(len(owners), 3)
            equal(self.owner_session.execute(bound).one().v, f"v{key % 2}")

    def pages(self):
        result = self.session.execute(SimpleStatement("SELECT id, c FROM t", fetch_size=7))
        rows = list(result.current_rows)
        while result.has_more_pages:
            result.fetch_next_page()
            rows += result.current_rows
        equal((len(rows), len(set(rows))), (KEYS + 8, KEYS + 8))

    def leaders(self):
        """Drivers of ScyllaDB ask for it, and then ask the leader; others are told nothing."""
        update = self.owner_session.prepare("UPDATE t SET v = 'w' WHERE id = ? AND c = 9")

        def payload(key):
            result = self.owner_session.execute_async(update, (key,))
            result.result()
            return (result.custom_payload or {}).get("tablets-routing-v1")

        told = [payload(key) for key in range(KEYS)]
        if not NAME.endswith("scylla"):
            return equal(told, [None] * KEYS)
        eventually("whoever leads is asked", lambda: [payload(key) for key in range(KEYS)] == [None] * KEYS)

    def killed(self):
        loads = [Load(self.session), Load(self.owner_session)]
        for load in loads:
            load.go_on(20)
        if not ask_harness("KILL"):
            say("skip the kill: not our server")
        else:
            up = lambda: sum(1 for host in self.spread.metadata.all_hosts() if host.is_up)
            eventually("the driver takes it for down", lambda: up() == NODES - 1)
            for load in loads:
                load.go_on(100)
            self.session.execute("CREATE TABLE meanwhile (id int PRIMARY KEY)")
            ask_harness("RESTART")
            eventually("the driver takes it for up", lambda: up() == NODES)
            for load in loads:
                load.go_on(100)
        for load in loads:
            load.end()
            say(f"{load.written} pairs, the longest took {load.longest:.2f} s")
        written = max(load.written for load in loads)
        equal(self.session.execute("SELECT count(*) FROM loaded").one()[0], written)


if __name__ == "__main__":
    Scenario().run()
