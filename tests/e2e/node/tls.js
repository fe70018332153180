'use strict';
// Node's cassandra-driver over TLS: tls.js SETUP HOST PORT FOLDER; the setups are in xtask/src/e2e/tls.rs.
const assert = require('assert');
const fs = require('fs');
const path = require('path');
const cassandra = require('cassandra-driver');
const { check } = require('./harness');

const [, , SETUP, HOST, PORT, FOLDER] = process.argv;
const read = (name) => fs.readFileSync(path.join(FOLDER, name));
const encrypted = { ca: [read('ca.pem')], host: HOST, rejectUnauthorized: true };
const withCertificate = { ...encrypted, cert: read('client.pem'), key: read('client.key') };

async function answers(sslOptions) {
  const client = new cassandra.Client({
    contactPoints: [`${HOST}:${PORT}`],
    localDataCenter: process.env.HELENUS_E2E_DATACENTER || 'datacenter1',
    sslOptions,
  });
  try {
    await client.connect();
    const result = await client.execute('SELECT cql_version FROM system.local');
    assert.strictEqual(result.first().cql_version, '3.4.7');
  } finally {
    await client.shutdown();
  }
}

const isRefused = (sslOptions) =>
  assert.rejects(() => answers(sslOptions), cassandra.errors.NoHostAvailableError);

async function main() {
  if (SETUP === 'required') {
    await check('Node over TLS, the certificate verified', () => answers(encrypted));
    await check('Node without TLS is refused', () => isRefused(undefined));
  } else if (SETUP === 'optional') {
    await check('Node over TLS', () => answers(encrypted));
    await check('Node without TLS on the same port', () => answers(undefined));
  } else {
    await check('Node with a client certificate', () => answers(withCertificate));
    await check('Node without a client certificate is refused', () => isRefused(encrypted));
  }
}

// A client that could not connect leaves timers behind.
main().then(() => process.exit(0));
