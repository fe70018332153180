"""The scenario of cqlsh: the real program, started as a user starts it, and what it prints.

    python scenario.py cqlsh HOST PORT PROTOCOL_VERSION

The expected texts were taken from Apache Cassandra 5.0.5.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

from harness import check, check_beyond_first, equal, eventually, restart_server, say

HOST, PORT, NEWEST = sys.argv[2], sys.argv[3], sys.argv[4]
CQLSH = pathlib.Path(sys.executable).with_name("cqlsh")
OURS = os.environ.get("HELENUS_E2E_TARGET", "helenus") == "helenus"
WORK = pathlib.Path(tempfile.mkdtemp(prefix="helenus-cqlsh-"))
KEYSPACE = "e2e_cqlsh"
REPLICATION = "{'class': 'SimpleStrategy', 'replication_factor': 1}"

FILTERING = ("Cannot execute this query as it might involve data filtering and thus may have unpredictable performance. "
             "If you want to execute this query despite the performance unpredictability, use ALLOW FILTERING")


def cqlsh(*arguments, statements=None):
    """Exit code, standard output without blank lines at its ends, standard error without cqlsh's version warning."""
    process = subprocess.run([sys.executable, CQLSH, HOST, PORT, *arguments], input=statements, text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120, cwd=WORK,
                             env=os.environ | {"HOME": str(WORK), "PYTHONWARNINGS": "ignore", "LC_ALL": "C.UTF-8"})
    errors = [line for line in process.stderr.splitlines() if "was built against" not in line]
    output = [line.rstrip() for line in process.stdout.splitlines() if "was built against" not in line]
    return process.returncode, "\n".join(output).strip("\n"), "\n".join(errors).strip()


def run(statements):
    """The output of statements that must succeed."""
    code, output, errors = cqlsh("-e", statements)
    if code != 0 or errors:
        raise AssertionError(f"{statements}\nexit code {code}\n{output}\n{errors}")
    return output


def shows(statements, wanted):
    equal(run(statements), wanted.strip("\n"))


def refused(statements, *fragments):
    code, output, errors = cqlsh("-e", statements)
    equal(code, 2)
    for fragment in fragments:
        if fragment not in errors:
            raise AssertionError(f"{fragment!r} is not in {errors!r} (output: {output!r})")


def connect():
    output = run("SHOW VERSION; SHOW HOST")
    for part in ("[cqlsh 6.2.2 | Cassandra 5.0.5 | CQL spec 3.4.7", f"Native protocol v{NEWEST}]", f"at {HOST}:{PORT}"):
        if part not in output:
            raise AssertionError(f"{part!r} is not in {output!r}")
    say(output.splitlines()[0])


def reset(keyspace):
    run(f"DROP KEYSPACE IF EXISTS {keyspace}; CREATE KEYSPACE {keyspace} WITH replication = {REPLICATION}")


# ---- the article's examples, word for word ----

def article_one_row_per_partition():
    reset("uprofile")
    run("CREATE TABLE uprofile.user (id UUID PRIMARY KEY, user text, message text);")
    run("INSERT INTO uprofile.user (id, user, message) VALUES (f81d4fae-7dec-41d0-a765-00a0c91e6bf6, 'theo', 'hello');"
        "INSERT INTO uprofile.user (id, user, message) VALUES (50554d6e-29bb-41e5-b345-feff819cdc9f, 'theo', 'again')")
    shows("SELECT * FROM uprofile.user WHERE id = f81d4fae-7dec-41d0-a765-00a0c91e6bf6", """
 id                                   | message | user
--------------------------------------+---------+------
 f81d4fae-7dec-41d0-a765-00a0c91e6bf6 |   hello | theo

(1 rows)""")
    shows("SELECT token(id), message FROM uprofile.user", """
 system.token(id)     | message
----------------------+---------
 -7912241175085566970 |   hello
  2472888870567049605 |   again

(2 rows)""")


def article_compound_key():
    run("DROP TABLE uprofile.user")
    run("CREATE TABLE uprofile.user (user text, id int, message text, PRIMARY KEY (user, id));")
    run("insert into uprofile.user (user, id, message) values ('theo', 2, 'hello again');")
    run("insert into uprofile.user (user, id, message) values ('theo', 1, 'hello');")
    run("insert into uprofile.user (user, id, message) values ('ann', 7, 'other');")
    shows("select * from uprofile.user where user = 'theo'", """
 user | id | message
------+----+-------------
 theo |  1 |       hello
 theo |  2 | hello again

(2 rows)""")
    shows("select id from uprofile.user where user = 'theo' order by id desc limit 1", """
 id
----
  2

(1 rows)""")


def article_index_on_partition_key():
    run("CREATE INDEX ON uprofile.user (user);")
    shows("select message from uprofile.user where user = 'theo'", """
 message
-------------
       hello
 hello again

(2 rows)""")


def article_composite_key():
    run("DROP TABLE uprofile.user")
    run("CREATE TABLE uprofile.user (firstname text, lastname text, id int, message text,"
        " PRIMARY KEY ((firstname, lastname), id));")
    run("insert into uprofile.user (firstname, lastname, id, message) values ('theo', 'vogel', 2, 'hello again');"
        "insert into uprofile.user (firstname, lastname, id, message) values ('theo', 'vogel', 1, 'hello');")
    shows("select * from uprofile.user where firstname = 'theo' and lastname = 'vogel'", """
 firstname | lastname | id | message
-----------+----------+----+-------------
      theo |    vogel |  1 |       hello
      theo |    vogel |  2 | hello again

(2 rows)""")


def article_without_full_key():
    for where in ("firstname = 'theo'", "lastname = 'vogel'", "id = 1"):
        refused(f"select * from uprofile.user where {where}",
                'InvalidRequest: Error from server: code=2200 [Invalid query] message="' + FILTERING)


def article_allow_filtering():
    shows("select id, message from uprofile.user where firstname = 'theo' allow filtering", """
 id | message
----+-------------
  1 |       hello
  2 | hello again

(2 rows)""")
    shows("select lastname from uprofile.user where id = 2 allow filtering", """
 lastname
----------
    vogel

(1 rows)""")


def article_tokens():
    run("DROP TABLE uprofile.user; CREATE TABLE uprofile.user (user text, id int, message text, PRIMARY KEY (user, id));"
        "insert into uprofile.user (user, id, message) values ('château', 1, 'x')")
    shows("select token(user) from uprofile.user where user = 'château'", """
 system.token(user)
---------------------
 9114062196463836094

(1 rows)""")
    run("DROP KEYSPACE uprofile")


# ---- the rest of what a cqlsh user does ----

def script_file():
    script = WORK / "schema.cql"
    script.write_text(f"""-- a comment
USE {KEYSPACE};
CREATE TABLE song (artist text, year int, title text, stars double, PRIMARY KEY (artist, year, title))
    WITH CLUSTERING ORDER BY (year DESC, title ASC);
/* several
   lines */
BEGIN BATCH
    INSERT INTO song (artist, year, title, stars) VALUES ('Édith', 1956, 'Non, je ne regrette rien', 5);
    INSERT INTO song (artist, year, title, stars) VALUES ('Édith', 1945, 'La vie en rose', 4.5);
    INSERT INTO song (artist, year, title) VALUES ('Édith', 1945, 'Milord; it''s good');
APPLY BATCH;
SELECT * FROM song;
""")
    equal(cqlsh("-f", str(script)), (0, """
 artist | year | title                    | stars
--------+------+--------------------------+-------
  Édith | 1956 | Non, je ne regrette rien |     5
  Édith | 1945 |           La vie en rose |   4.5
  Édith | 1945 |        Milord; it's good |  null

(3 rows)""".strip("\n"), ""))


def standard_input():
    code, output, _ = cqlsh("-k", KEYSPACE, statements="SELECT title FROM song LIMIT 1;\nEXPAND ON;\n"
                            "SELECT title, stars FROM song LIMIT 1;\nCONSISTENCY QUORUM;\nSELECT count(*) FROM song;\n")
    equal(code, 0)
    for part in ("Non, je ne regrette rien", "@ Row 1", " stars | 5", "Consistency level set to QUORUM.", " count | 3"):
        if part not in output:
            raise AssertionError(f"{part!r} is not in {output!r}")


def scalar_texts():
    run(f"""CREATE TABLE {KEYSPACE}.scalar (id int PRIMARY KEY, a ascii, b bigint, c blob, d boolean, e date, f decimal,
        g double, h duration, i float, j inet, k smallint, l text, m time, n timestamp, o timeuuid, p tinyint, q uuid, r varint)""")
    run(f"""INSERT INTO {KEYSPACE}.scalar (id, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r) VALUES (1, 'asc', -5, 0xcafe,
        true, '2024-02-29', 1.50, 2.5, 1mo3d4h, 0.5, '127.0.0.1', 7, 'château', '13:14:15.123456789',
        '2024-02-29 12:00:00+0000', 50554d6e-29bb-11e5-b345-feff819cdc9f, -1, f81d4fae-7dec-41d0-a765-00a0c91e6bf6, 12345678901234567890)""")
    shows(f"SELECT a, b, c, d, e, f, g, h FROM {KEYSPACE}.scalar", """
 a   | b  | c      | d    | e          | f    | g   | h
-----+----+--------+------+------------+------+-----+---------
 asc | -5 | 0xcafe | True | 2024-02-29 | 1.50 | 2.5 | 1mo3d4h

(1 rows)""")
    shows(f"SELECT i, j, k, l, m, n FROM {KEYSPACE}.scalar", """
 i   | j         | k | l       | m                  | n
-----+-----------+---+---------+--------------------+---------------------------------
 0.5 | 127.0.0.1 | 7 | château | 13:14:15.123456789 | 2024-02-29 12:00:00.000000+0000

(1 rows)""")
    shows(f"SELECT o, p, q, r FROM {KEYSPACE}.scalar", """
 o                                    | p  | q                                    | r
--------------------------------------+----+--------------------------------------+----------------------
 50554d6e-29bb-11e5-b345-feff819cdc9f | -1 | f81d4fae-7dec-41d0-a765-00a0c91e6bf6 | 12345678901234567890

(1 rows)""")


def collection_texts():
    run(f"CREATE TYPE {KEYSPACE}.address (street text, number int)")
    run(f"USE {KEYSPACE}; CREATE TABLE many (id int PRIMARY KEY, l list<int>, s set<text>, m map<text, int>,"
        " t tuple<int, text>, u address, v vector<float, 2>)")
    run(f"""INSERT INTO {KEYSPACE}.many (id, l, s, m, t, u, v) VALUES (1, [3, 1], {{'b', 'a'}}, {{'k': 1}}, (1, 'x'),
        {{street: 'high', number: 7}}, [1.5, -2])""")
    shows(f"SELECT l, s, m, t, u, v FROM {KEYSPACE}.many", """
 l      | s          | m        | t        | u                           | v
--------+------------+----------+----------+-----------------------------+-----------
 [3, 1] | {'a', 'b'} | {'k': 1} | (1, 'x') | {street: 'high', number: 7} | [1.5, -2]

(1 rows)""")


def paging():
    run(f"CREATE TABLE {KEYSPACE}.paged (pk int, ck int, PRIMARY KEY (pk, ck))")
    table = WORK / "rows.csv"
    table.write_text("".join(f"1,{ck}\n" for ck in range(5000)))
    assert "5000 rows imported" in run(f"COPY {KEYSPACE}.paged (pk, ck) FROM '{table}'")
    output = run(f"PAGING 100; SELECT ck FROM {KEYSPACE}.paged WHERE pk = 1")
    numbers = [int(line) for line in output.splitlines() if line.strip().isdigit()]
    equal(numbers, list(range(5000)))
    assert output.endswith("(5000 rows)"), output[-100:]


def copy_csv():
    table, csv = WORK / "song.csv", f"{KEYSPACE}.song (artist, year, title, stars)"
    run(f"COPY {csv} TO '{table}' WITH HEADER = true")
    equal(sorted(table.read_text().splitlines()), [
        "artist,year,title,stars", "Édith,1945,La vie en rose,4.5", "Édith,1945,Milord; it's good,",
        'Édith,1956,"Non, je ne regrette rien",5'])
    run(f"TRUNCATE {KEYSPACE}.song; COPY {csv} FROM '{table}' WITH HEADER = true")
    shows(f"SELECT count(*) FROM {KEYSPACE}.song WHERE artist = 'Édith'", """
 count
-------
     3

(1 rows)""")


def describe():
    names = run("DESCRIBE KEYSPACES").split()
    assert KEYSPACE in names and "system_schema" in names, names
    output = run(f"DESCRIBE TABLE {KEYSPACE}.song")
    assert output.startswith(f"""CREATE TABLE {KEYSPACE}.song (
    artist text,
    year int,
    title text,
    stars double,
    PRIMARY KEY (artist, year, title)
) WITH CLUSTERING ORDER BY (year DESC, title ASC)
    AND additional_write_policy = '99p'"""), output
    # What DESCRIBE prints makes the same keyspace again.
    whole = run(f"DESCRIBE KEYSPACE {KEYSPACE}")
    run(f"DROP KEYSPACE {KEYSPACE}")
    script = WORK / "again.cql"
    script.write_text(whole)
    equal(cqlsh("-f", str(script))[::2], (0, ""))
    equal(run(f"DESCRIBE KEYSPACE {KEYSPACE}"), whole)


def syntax_error():
    refused("selec * from nothing", "SyntaxException: line 1:0 no viable alternative at input 'selec' ([selec]...)")


def missing_table():
    refused(f"select * from {KEYSPACE}.nowhere",
            'InvalidRequest: Error from server: code=2200 [Invalid query] message="table nowhere does not exist"')
    refused("select * from no_such_keyspace.nowhere", 'message="keyspace no_such_keyspace does not exist"')


def after_restart():
    eventually("cqlsh connects again", lambda: "(3 rows)" in run(f"SELECT * FROM {KEYSPACE}.song"))


def main():
    check("newest protocol version", connect)
    check("article: one row per partition", article_one_row_per_partition)
    check("article: compound key, sorted by id", article_compound_key)
    if OURS:
        check("article: index on the partition key", article_index_on_partition_key)
    else:
        say("skip article: index on the partition key: Cassandra refuses it")
    check("article: composite key", article_composite_key)
    check("article: error without the full partition key", article_without_full_key)
    check("article: allow filtering", article_allow_filtering)
    check("article: tokens are Cassandra's", article_tokens)
    reset(KEYSPACE)
    check("script file", script_file)
    check("standard input", standard_input)
    check("texts of scalars", scalar_texts)
    check_beyond_first("texts of collections, tuples, udts, vectors", collection_texts)
    check("page through 5,000 rows by 100", paging)
    check("copy to and from csv", copy_csv)
    check("syntax error", syntax_error)
    check("missing table", missing_table)
    if restart_server():
        check("reconnect after a restart", after_restart)
    else:
        say("skip reconnect after a restart: not our server")
    check_beyond_first("describe", describe)
    run(f"DROP KEYSPACE {KEYSPACE}")


if __name__ == "__main__":
    main()
