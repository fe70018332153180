'use strict';
// The scenario of Node's cassandra-driver.
//
//     node scenario.js NAME HOST PORT PROTOCOL_VERSION
const assert = require('assert');
const cassandra = require('cassandra-driver');
const { check, checkBeyondFirst, eventually, restartServer, say } = require('./harness');

const { BigDecimal, Duration, InetAddress, Integer, LocalDate, LocalTime, Long, TimeUuid, Tuple, Uuid, Vector } =
  cassandra.types;
const [, , , HOST, PORT, NEWEST] = process.argv;
const KEYSPACE = 'e2e_node';
const [PAGE, PARTITIONS, ROWS_EACH] = [100, 5, 1000];
const prepared = { prepare: true };

// Type, and values that must come back as they went in: the ends of the range, zero, something plain.
const SCALARS = [
  ['ascii', ['', 'plain', '~!@#$%^&*()']],
  ['bigint', ['0', '-1', '9223372036854775807', '-9223372036854775808'].map((text) => Long.fromString(text))],
  ['blob', [Buffer.alloc(0), Buffer.from([0, 255]), Buffer.alloc(65536, 7)]],
  ['boolean', [true, false]],
  ['date', ['1970-01-01', '1969-12-31', '2024-02-29', '9999-12-31'].map((text) => LocalDate.fromString(text))],
  ['decimal', ['0', '-1.50', '123456789012345678901234567890.123'].map((text) => BigDecimal.fromString(text))],
  ['double', [0, -1.5, 1.7976931348623157e308, 5e-324, Infinity]],
  ['duration', [new Duration(0, 0, Long.ZERO), new Duration(14, 3, Long.fromString('3600000000000')),
    new Duration(-1, -2, Long.fromNumber(-3))]],
  ['float', [0, -1.5, 3.4028234663852886e38]],
  ['inet', ['127.0.0.1', '255.255.255.255', '::1', '2001:db8::8a2e:370:7334'].map((t) => InetAddress.fromString(t))],
  ['int', [0, -1, 2147483647, -2147483648]],
  ['smallint', [0, -1, 32767, -32768]],
  ['text', ['', 'château', '日本語 🙂', 'x'.repeat(70000)]],
  ['time', ['00:00:00', '13:14:15.123456789', '23:59:59.999999999'].map((text) => LocalTime.fromString(text))],
  ['timestamp', [new Date(0), new Date(-1), new Date('2038-01-19T03:14:08.123Z')]],
  ['timeuuid', [TimeUuid.fromString('50554d6e-29bb-11e5-b345-feff819cdc9f')]],
  ['tinyint', [0, -1, 127, -128]],
  ['uuid', ['00000000-0000-0000-0000-000000000000', 'f81d4fae-7dec-41d0-a765-00a0c91e6bf6'].map(Uuid.fromString)],
  ['varchar', ['same as text']],
  ['varint', ['0', '-1', '128', '-129', '9223372036854775808', '-' + '9'.repeat(60)].map((t) => Integer.fromString(t))],
];

const COLLECTIONS = [
  ['list<int>', [[1], [3, 1, 3, 2]]],
  ['set<text>', [['a'], ['a', 'b', 'c']]],
  ['map<text, int>', [{ a: 1 }, { a: 1, b: 2 }]],
  ['map<text, frozen<list<text>>>', [{ k: ['x', 'y'] }]],
  ['frozen<list<frozen<set<int>>>>', [[[1, 2], [3]]]],
  ['frozen<map<text, text>>', [{ a: 'b' }]],
];

/** The default policy, which also remembers the routing key that the driver computed for the last statement. */
class WatchedPolicy extends cassandra.policies.loadBalancing.DefaultLoadBalancingPolicy {
  newQueryPlan(keyspace, executionOptions, callback) {
    this.routingKey = executionOptions && executionOptions.getRoutingKey();
    super.newQueryPlan(keyspace, executionOptions, callback);
  }
}

const policy = new WatchedPolicy();
const options = (loadBalancing) => ({
  contactPoints: [`${HOST}:${PORT}`],
  localDataCenter: process.env.HELENUS_E2E_DATACENTER || 'datacenter1',
  policies: { loadBalancing, reconnection: new cassandra.policies.reconnection.ConstantReconnectionPolicy(200) },
  socketOptions: { readTimeout: 30000 },
});

// One client changes things, the other only watches.
const client = new cassandra.Client(options(policy));
const watcher = new cassandra.Client(options(new WatchedPolicy()));
const run = (query, parameters, more) => client.execute(query, parameters, { ...prepared, ...more });
const plain = (query) => client.execute(query);
const one = async (query, parameters) => (await run(query, parameters)).first();

async function createSchema() {
  await plain(`DROP KEYSPACE IF EXISTS ${KEYSPACE}`);
  await plain(`CREATE KEYSPACE ${KEYSPACE} WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}`);
  await plain(`USE ${KEYSPACE}`);
  await plain('CREATE TABLE paged (pk int, ck int, v text, PRIMARY KEY (pk, ck))');
  await plain('CREATE TABLE plain (id int PRIMARY KEY, a text, b text)');
  await plain('CREATE TABLE keyed (a text, b int, c text, PRIMARY KEY ((a, b), c))');
  await plain('CREATE TABLE named (name text PRIMARY KEY, v int)');
  const table = await client.metadata.getTable(KEYSPACE, 'keyed');
  assert.deepStrictEqual(table.partitionKeys.map((column) => column.name), ['a', 'b']);
  assert.deepStrictEqual(table.clusteringKeys.map((column) => column.name), ['c']);
}

/** The watching client keeps the metadata it read; only the pushed event makes it read again. */
async function schemaEvent() {
  const columns = async () => (await watcher.metadata.getTable(KEYSPACE, 'plain')).columns.map((c) => c.name).sort();
  await eventually('the table is announced', async () => String(await columns()) === 'a,b,id');
  await plain('ALTER TABLE plain ADD later text');
  await eventually('the column is announced', async () => (await columns()).includes('later'));
}

async function roundTrip(type, values) {
  // A table of its own for each type: the client keeps prepared statements by their text.
  const table = 'type_' + type.replace(/[^a-z]+/g, '_');
  await plain(`CREATE TABLE ${table} (id int PRIMARY KEY, v ${type})`);
  for (const [index, value] of values.entries()) {
    await run(`INSERT INTO ${table} (id, v) VALUES (?, ?)`, [index, value]);
    const { v } = await one(`SELECT v FROM ${table} WHERE id = ?`, [index]);
    if (typeof value.equals === 'function') {
      assert.ok(value.equals(v), `got ${v}, wanted ${value}`);
    } else {
      assert.deepStrictEqual(v, value);
    }
  }
}

async function counter() {
  await plain('CREATE TABLE counted (id int PRIMARY KEY, n counter)');
  for (const step of [5, -2, 2 ** 40]) {
    await run('UPDATE counted SET n = n + ? WHERE id = ?', [Long.fromNumber(step), 1]);
  }
  assert.ok((await one('SELECT n FROM counted WHERE id = 1')).n.equals(Long.fromNumber(3 + 2 ** 40)));
}

async function tuples() {
  await plain('CREATE TABLE tuples (id int PRIMARY KEY, v tuple<int, text, uuid>)');
  const value = new Tuple(1, 'one', Uuid.fromString('f81d4fae-7dec-41d0-a765-00a0c91e6bf6'));
  await run('INSERT INTO tuples (id, v) VALUES (?, ?)', [1, value]);
  const { v } = await one('SELECT v FROM tuples WHERE id = 1');
  assert.deepStrictEqual(v.values().map(String), value.values().map(String));
}

async function udts() {
  await plain('CREATE TYPE address (street text, number int)');
  await plain('CREATE TYPE person (name text, home frozen<address>, phones frozen<list<text>>)');
  await plain('CREATE TABLE people (id int PRIMARY KEY, p person)');
  const theo = { name: 'theo', home: { street: 'high street', number: 7 }, phones: ['1', '2'] };
  await run('INSERT INTO people (id, p) VALUES (?, ?)', [1, theo]);
  assert.deepStrictEqual({ ...(await one('SELECT p FROM people WHERE id = 1')).p }, theo);
  const udt = await client.metadata.getUdt(KEYSPACE, 'address');
  assert.deepStrictEqual(udt.fields.map((field) => field.name), ['street', 'number']);
}

async function vectors() {
  await plain('CREATE TABLE vectors (id int PRIMARY KEY, v vector<float, 3>)');
  await run('INSERT INTO vectors (id, v) VALUES (?, ?)', [1, new Vector([1, -2.5, 0], 'float')]);
  assert.deepStrictEqual(Array.from((await one('SELECT v FROM vectors WHERE id = 1')).v), [1, -2.5, 0]);
}

async function nullAndUnset() {
  await run('INSERT INTO plain (id, a, b) VALUES (?, ?, ?)', [1, 'a', 'b']);
  await run('INSERT INTO plain (id, a, b) VALUES (?, ?, ?)', [1, null, cassandra.types.unset]);
  const row = await one('SELECT a, b FROM plain WHERE id = ?', [1]);
  assert.deepStrictEqual([row.a, row.b], [null, 'b']);
}

async function writeRows() {
  const rows = [];
  for (let ck = 0; ck < ROWS_EACH; ck++) {
    for (let pk = 0; pk < PARTITIONS; pk++) {
      rows.push([pk, ck, `row ${pk} ${ck}`]);
    }
  }
  await cassandra.concurrent.executeConcurrent(client, 'INSERT INTO paged (pk, ck, v) VALUES (?, ?, ?)', rows,
    { prepare: true, concurrencyLevel: 100, raiseOnFirstError: true });
}

/** Reads page by page and demands full pages; an empty last page is the server's choice. */
async function pages(query, parameters, count) {
  const rows = [];
  const sizes = [];
  let pageState;
  do {
    const result = await run(query, parameters, { fetchSize: PAGE, pageState });
    sizes.push(result.rows.length);
    rows.push(...result.rows);
    pageState = result.pageState;
  } while (pageState);
  if (sizes.at(-1) === 0) {
    sizes.pop();
  }
  assert.deepStrictEqual(sizes, Array(count).fill(PAGE));
  return rows;
}

async function pageAll() {
  const rows = await pages('SELECT token(pk) AS t, pk, ck, v FROM paged', [], (PARTITIONS * ROWS_EACH) / PAGE);
  for (const [index, row] of rows.entries()) {
    assert.strictEqual(row.v, `row ${row.pk} ${row.ck}`);
    assert.strictEqual(row.ck, index % ROWS_EACH);
    assert.ok(index === 0 || rows[index - 1].t.lessThanOrEqual(row.t), 'rows come in token order');
  }
  assert.strictEqual(new Set(rows.map((row) => row.v)).size, PARTITIONS * ROWS_EACH);
}

async function pageReverse() {
  const rows = await pages('SELECT ck FROM paged WHERE pk = ? ORDER BY ck DESC', [3], ROWS_EACH / PAGE);
  assert.deepStrictEqual(rows.map((row) => row.ck), Array.from({ length: ROWS_EACH }, (_, i) => ROWS_EACH - 1 - i));
}

async function loggedBatch() {
  await client.batch([
    { query: 'INSERT INTO named (name, v) VALUES (?, ?)', params: ['one', 1] },
    { query: 'INSERT INTO named (name, v) VALUES (?, ?)', params: ['two', 2] },
    { query: 'INSERT INTO plain (id, a) VALUES (?, ?)', params: [20, 'batched'] },
  ], { prepare: true, logged: true });
  const { rows } = await plain("SELECT name, v, writetime(v) AS w FROM named WHERE name IN ('one', 'two')");
  assert.deepStrictEqual(rows.map((row) => [row.name, row.v]).sort(), [['one', 1], ['two', 2]]);
  assert.ok(rows[0].w.equals(rows[1].w));
  assert.strictEqual((await one('SELECT a FROM plain WHERE id = 20')).a, 'batched');
}

async function tokens() {
  const check = async (select, key) => {
    const { t } = await one(select, key);
    const token = client.metadata.newToken(policy.routingKey).getValue().toString();
    assert.strictEqual(t.toString(), token);
    return token;
  };
  for (const name of ['a', 'x'.repeat(40), '日本語', '16 bytes exactly', 'château']) {
    await run('INSERT INTO named (name, v) VALUES (?, 0)', [name]);
    const token = await check('SELECT token(name) AS t FROM named WHERE name = ?', [name]);
    assert.ok(name !== 'château' || token === '9114062196463836094', token);
  }
  for (const key of [['château', 1], ['', 0], ['z', -1]]) {
    await run("INSERT INTO keyed (a, b, c) VALUES (?, ?, 'c')", key);
    await check('SELECT token(a, b) AS t FROM keyed WHERE a = ? AND b = ?', key);
  }
}

async function routing() {
  const owners = client.metadata.getReplicas(KEYSPACE, Buffer.from('château'));
  assert.strictEqual(owners.length, 1);
  const result = await run('SELECT v FROM named WHERE name = ?', ['château']);
  assert.strictEqual(result.info.queriedHost, owners[0].address);
}

async function refused(query, code, fragment) {
  await assert.rejects(() => plain(query), (error) => {
    assert.ok(error instanceof cassandra.errors.ResponseError, String(error));
    assert.strictEqual(error.code, code);
    assert.ok(error.message.includes(fragment), error.message);
    return true;
  });
}

async function afterRestart() {
  const select = 'SELECT v FROM paged WHERE pk = ? AND ck = ?';
  await eventually('the client answers again', async () => (await one(select, [4, 999])).v === 'row 4 999');
  await eventually('all rows are there',
    async () => (await one('SELECT count(*) AS n FROM paged')).n.toNumber() === PARTITIONS * ROWS_EACH);
}

async function charges() {
  const chargeOf = (result) => result.info.customPayload.RequestCharge.readDoubleBE();
  await plain('CREATE TABLE charged (id int PRIMARY KEY, v blob)');
  const ask = { customPayload: { RequestCharge: Buffer.alloc(0) } };
  const charge = async (query, values, options) => chargeOf(await client.execute(query, values, { ...ask, ...options }));
  const insert = 'INSERT INTO charged (id, v) VALUES (?, ?)';
  assert.strictEqual(await charge(insert, [1, Buffer.alloc(1020)], { prepare: true }), 4.95);
  assert.strictEqual(await charge('SELECT * FROM charged WHERE id = ?', [1], { prepare: true }), 1);
  assert.ok(await charge('SELECT table_name FROM system_schema.tables') >= 1);
  assert.ok(!(await plain('SELECT table_name FROM system_schema.tables')).info.customPayload);
}

async function main() {
  await client.connect();
  await watcher.connect();
  const version = client.controlConnection.protocolVersion;
  await check('newest protocol version', () => assert.strictEqual(version, Number(NEWEST)));
  say(`protocol v${version}`);
  await check('create keyspace and table', createSchema);
  await check('schema change event', schemaEvent);
  for (const [type, values] of SCALARS) {
    await check(`type ${type}`, () => roundTrip(type, values));
  }
  await check('type counter', counter);
  for (const [type, values] of COLLECTIONS) {
    await checkBeyondFirst(`type ${type}`, () => roundTrip(type, values));
  }
  await checkBeyondFirst('type tuple', tuples);
  await checkBeyondFirst('type udt', udts);
  await checkBeyondFirst('type vector', vectors);
  await check('null and unset', nullAndUnset);
  await check('write 5,000 rows', writeRows);
  await check('page through 5,000 rows by 100', pageAll);
  await check('page through one partition in reverse', pageReverse);
  await check('logged batch', loggedBatch);
  await check("tokens equal the server's", tokens);
  await check('token-aware routing', routing);
  const { syntaxError, invalid } = cassandra.types.responseErrorCodes;
  await check('syntax error', () => refused('SELEC * FROM plain', syntaxError, 'line 1:0 '));
  await check('missing table', () => refused('SELECT * FROM nowhere', invalid, 'table nowhere does not exist'));
  if (process.env.HELENUS_E2E_TARGET === 'helenus') {
    await check('charges of requests', charges);
  } else {
    say('skip charges of requests: this is not Helenus');
  }
  if (await restartServer()) {
    await check('reconnect after a restart', afterRestart);
  } else {
    say('skip reconnect after a restart: not our server');
  }
  await plain(`DROP KEYSPACE ${KEYSPACE}`);
  await Promise.all([client.shutdown(), watcher.shutdown()]);
}

main().then(
  // After a reconnection the driver leaves timers behind, also against Cassandra.
  () => process.exit(0),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
