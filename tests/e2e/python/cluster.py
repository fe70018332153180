"""A cluster of four nodes as Python's drivers see it: both cassandra-driver and scylla-driver (both import as `cassandra`).

    python cluster.py NAME HOST PORT PROTOCOL_VERSION

HOST is one of the nodes. `KILL 3 PLEASE` has the third one killed; STOP, START, DRAIN, UNDRAIN, ADD and DECOMMISSION are asked for as well.
"""

import sys
import threading
import time

from cassandra import ConsistencyLevel
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.policies import (ConstantReconnectionPolicy, FallthroughRetryPolicy, RetryPolicy, RoundRobinPolicy,
                                TokenAwarePolicy)
from cassandra.query import SimpleStatement

from harness import ask_harness, check, equal, eventually, say

NAME, HOST, PORT, NEWEST = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
KEYSPACE = "e2e_cluster_" + NAME.replace("-", "_")
NODES, KEYS = 4, 64


def connected(policy):
    # What is right whichever node is asked: at LOCAL_ONE a node may be a moment behind.
    profile = ExecutionProfile(load_balancing_policy=policy, request_timeout=30, retry_policy=AgainElsewhere(),
                               consistency_level=ConsistencyLevel.LOCAL_QUORUM)
    return Cluster([HOST], port=PORT, execution_profiles={EXEC_PROFILE_DEFAULT: profile}, connect_timeout=15,
                   control_connection_timeout=15, schema_event_refresh_window=0, status_event_refresh_window=0,
                   topology_event_refresh_window=0, reconnection_policy=ConstantReconnectionPolicy(0.2, None))


class AgainElsewhere(RetryPolicy):
    """What an application chooses that wants to see no error: another node is asked, a few times. Its statements are idempotent."""

    TIMES = 5

    def again(self, retry_num):
        return (self.RETRY_NEXT_HOST if retry_num < self.TIMES else self.RETHROW), None

    def on_read_timeout(self, query, consistency, required_responses, received_responses, data_retrieved, retry_num):
        return self.again(retry_num)

    def on_write_timeout(self, query, consistency, write_type, required_responses, received_responses, retry_num):
        return self.again(retry_num)

    def on_unavailable(self, query, consistency, required_replicas, alive_replicas, retry_num):
        return self.again(retry_num)

    def on_request_error(self, query, consistency, error, retry_num):
        return self.again(retry_num)


class Load:
    """Does something again and again under a thread of its own; every error is kept."""

    def __init__(self, session):
        self.session, self.errors, self.done, self.longest = session, [], 0, 0.0
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.stopping.is_set():
            began = time.monotonic()
            try:
                self.step(self.done)
            except Exception as error:
                self.errors.append((self.done, error))
            self.longest = max(self.longest, time.monotonic() - began)
            self.done += 1

    def go_on(self, count):
        before = self.done
        eventually(f"{count} more are done", lambda: self.done >= before + count)

    def end(self):
        self.stopping.set()
        self.thread.join()


class Pairs(Load):
    """Writes and reads back, with the retry policy of the session. No error may come through it."""

    def __init__(self, who, session):
        self.who = who
        self.insert = session.prepare("INSERT INTO loaded (who, id, v) VALUES (?, ?, ?)")
        self.select = session.prepare("SELECT v FROM loaded WHERE who = ? AND id = ?")
        self.insert.is_idempotent = self.select.is_idempotent = True
        super().__init__(session)

    def step(self, number):
        self.session.execute(self.insert, (self.who, number, f"v{number}"))
        equal(self.session.execute(self.select, (self.who, number)).one().v, f"v{number}")

    def judge(self, session):
        equal(self.errors, [])
        rows = {row.id: row.v for row in session.execute("SELECT id, v FROM loaded WHERE who = %s", (self.who,))}
        equal(rows, {number: f"v{number}" for number in range(self.done)})


class Appends(Load):
    """Appends to lists, each time once: a retry could append twice. What fails is open; what is acknowledged is there, once."""

    LIST_MAX = 100

    def step(self, number):
        statement = SimpleStatement(f"UPDATE appended SET l = l + [{number}] WHERE id = {number // self.LIST_MAX}",
                                    retry_policy=FallthroughRetryPolicy(), is_idempotent=False)
        self.session.execute(statement)

    def judge(self, session):
        found = [element for row in session.execute("SELECT l FROM appended") for element in row.l]
        failed = {number for number, _ in self.errors}
        equal(len(found), len(set(found)))
        equal(set(range(self.done)) - failed - set(found), set())
        equal(set(found) - set(range(self.done)), set())


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
        self.under_load()
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
                          "CREATE TABLE loaded (who int, id int, v text, PRIMARY KEY (who, id))", "CREATE TABLE appended (id int PRIMARY KEY, l list<int>)", "CREATE INDEX by_v ON t (v)"):
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

    def under_load(self):
        """Nodes die, are drained, started again, come and go, while three threads write and read."""
        self.loads = [Pairs(0, self.session), Pairs(1, self.owner_session), Appends(self.session)]
        check("a load runs", lambda: self.go_on(20))
        if not ask_harness("KILL 3"):
            say("skip what is done to nodes: they are not ours")
        else:
            check("a node is killed under load", self.killed)
            check("a node is drained under load", self.drained)
            # The drivers are forks of one another: what takes long is done with one of them.
            if not NAME.endswith("scylla"):
                check("all nodes are restarted under load, one after the other", self.restarted)
                check("a node joins and is decommissioned under load", self.joined)
        for load in self.loads:
            load.end()
            say(f"{type(load).__name__.lower()}: {load.done}, the longest took {load.longest:.2f} s, {len(load.errors)} errors")
        check("nothing that was acknowledged is lost or doubled", lambda: [load.judge(self.session) for load in self.loads])

    def go_on(self, count):
        """All of them go on, and no error came through a retry policy."""
        for load in self.loads:
            load.go_on(count)
            if isinstance(load, Pairs):
                equal(load.errors, [])

    def up(self, count):
        """Both clients of the cluster know: one that still waits to connect again has no node to ask when the next one goes."""
        is_so = lambda it: sum(1 for host in it.metadata.all_hosts() if host.is_up) == count
        eventually(f"the driver takes {count} nodes for up", lambda: is_so(self.spread) and is_so(self.aware))

    def caught_up(self):
        """Of four nodes only one may be away: the next one when this one has everything but what is just being written."""
        members = "SELECT set_id, node, role, term, last_index, lag, leader FROM system_helenus.replicas"

        def nobody_behind():
            written = self.session.execute("SELECT id FROM system_helenus.physical_partitions WHERE space = %s", (KEYSPACE,))
            sets = {row.id for row in written}
            rows = [row for row in self.session.execute(members) if row.set_id in sets]
            equal([tuple(row) for row in rows if row.lag >= 20 or row.leader is None], [])
            return len(rows) >= NODES

        eventually("nobody is behind", nobody_behind)

    def killed(self):
        self.up(NODES - 1)
        self.go_on(100)
        self.session.execute("CREATE TABLE meanwhile (id int PRIMARY KEY)")
        ask_harness("START 3")
        self.up(NODES)
        self.caught_up()
        self.go_on(50)

    def drained(self):
        ask_harness("DRAIN 2")
        self.go_on(50)
        ask_harness("UNDRAIN 2")
        self.go_on(50)

    def restarted(self):
        for node in range(1, NODES + 1):
            ask_harness(f"DRAIN {node}")
            ask_harness(f"STOP {node}")
            self.go_on(20)
            ask_harness(f"START {node}")
            ask_harness(f"UNDRAIN {node}")
            self.up(NODES)
            self.caught_up()
        self.go_on(50)

    def joined(self):
        ask_harness("ADD")
        self.up(NODES + 1)
        self.go_on(50)
        ask_harness("DECOMMISSION")
        eventually("the driver forgets it", lambda: len(self.spread.metadata.all_hosts()) == NODES)
        self.caught_up()
        self.go_on(50)


if __name__ == "__main__":
    Scenario().run()
