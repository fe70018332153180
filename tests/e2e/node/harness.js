'use strict';
// What the Node scenarios share: the report lines and the talk with `cargo xtask e2e`. The contract is in ../README.md.
const assert = require('assert');
const readline = require('readline');

const FIRST_LEVEL = process.env.HELENUS_E2E_LEVEL === 'first';

const say = (line) => console.log(line);

/** Runs one check and reports it; the scenario ends at the first failure. */
async function check(name, run) {
  try {
    await run();
  } catch (error) {
    say(`FAILED ${name}`);
    console.error(error);
    process.exit(1);
  }
  say(`ok ${name}`);
}

/** A check of a type that the first level of the server does not have yet. */
async function checkBeyondFirst(name, run) {
  if (FIRST_LEVEL) {
    say(`skip ${name}: not in the first level`);
  } else {
    await check(name, run);
  }
}

/** Waits until the condition holds; errors on the way count as not yet. */
async function eventually(what, condition, seconds = 90) {
  const deadline = Date.now() + seconds * 1000;
  let last;
  while (Date.now() < deadline) {
    try {
      if (await condition()) {
        return;
      }
    } catch (error) {
      last = error;
    }
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error(`not within ${seconds} s: ${what} (last error: ${last})`);
}

/** Asks the harness for a restart of the server; false when the server is not its own. */
async function restartServer() {
  say('RESTART PLEASE');
  const input = readline.createInterface({ input: process.stdin });
  const answer = await new Promise((resolve) => input.once('line', resolve));
  input.close();
  process.stdin.destroy(); // an open pipe would keep the process alive
  assert.ok(['DONE', 'SKIP'].includes(answer), `unexpected answer of the harness: ${answer}`);
  return answer === 'DONE';
}

module.exports = { check, checkBeyondFirst, eventually, restartServer, say };
