// Runs all legs of the suite against each adapter: node suite.mjs FOLDER-OF-EXAMPLES ADAPTER...
import { spawn } from 'node:child_process';
import { mkdtemp, mkdir, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { checksIn, verdict } from './verdict.mjs';

const SUITE = fileURLToPath(new URL('node_modules/@modelcontextprotocol/conformance/dist/index.js', import.meta.url));

/** For one scenario. The suite's own limit comes first, so that it can say what it waited for. */
const LIMIT = 30_000;
const GRACE = 60_000;

/** Scenarios that run at the same time, of those that do not share a server. */
const LANES = 2;

/**
 * What is run: for each leg the number of its scenarios, so that a list that is read wrongly does not pass for one that
 * is done. Scenarios of extensions belong to no revision: servers are tried with them once, clients over both wires.
 */
const LEGS = {
  server: { '2025-03-26': 1, '2025-06-18': 27, '2025-11-25': 33, '2026-07-28': 40, extensions: 13 },
  client: {
    '2025-03-26': 2,
    '2025-06-18': 5,
    '2025-11-25': 19,
    '2026-07-28': 33,
    'extensions over 2025-11-25': 10,
    'extensions over 2026-07-28': 10,
  },
};

/** Runs the suite, and gives back how it ended and what it printed. */
function suite(args, limit = LIMIT + GRACE) {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, [SUITE, ...args], { stdio: ['ignore', 'pipe', 'pipe'] });
    let text = '';
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (text += chunk));
    const timer = setTimeout(() => child.kill('SIGKILL'), limit);
    child.on('error', (error) => resolve({ status: 127, text: String(error) }));
    child.on('close', (status) => {
      clearTimeout(timer);
      resolve({ status: status ?? 124, text });
    });
  });
}

/** The names of the scenarios of a leg. */
async function scenariosOf(side, leg, expected) {
  const extensions = leg.startsWith('extensions');
  const { status, text } = await suite(['list', `--${side}`, ...(extensions ? [] : ['--spec-version', leg])]);
  if (status !== 0) throw new Error(`the suite does not list its scenarios: ${text}`);
  const listed = [...text.matchAll(/^\s+- (\S+)(?: +\[(.*)\])?$/gm)];
  const names = listed
    .filter(([, , of]) => !extensions || of === 'extension')
    .map(([, name]) => name);
  if (names.length !== expected) throw new Error(`${leg} has ${names.length} scenarios for a ${side}, not ${expected}`);
  return names;
}

/** Starts a server, and waits until it says where it is. */
async function start(command) {
  const child = spawn(command, ['--http', '127.0.0.1:0'], { stdio: ['ignore', 'ignore', 'pipe'] });
  let said = '';
  const url = await new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`${command} does not say where it is: ${said}`)), LIMIT);
    const done = (settle, with_) => {
      clearTimeout(timer);
      settle(with_);
    };
    child.on('error', (error) => done(reject, error));
    child.on('exit', (status) => done(reject, new Error(`${command} ended with status ${status}: ${said}`)));
    child.stderr.on('data', (chunk) => {
      said = (said + chunk).slice(-10_000);
      const [, address] = /^at (http:\S+)\s/m.exec(said) ?? [];
      if (address !== undefined) done(resolve, address);
    });
  });
  return { url, isRunning: () => child.exitCode === null && child.signalCode === null, stop: () => child.kill() };
}

/** A server of ours in one leg: those of revisions in one run of the suite, others one by one. */
async function* server(leg, names, url, folder) {
  if (leg === 'extensions') {
    for (const name of names) {
      const out = await fresh(folder, name);
      const { status, text } = await suite(['server', '--scenario', name, '--url', url, '-o', out]);
      yield { name, ...verdict(name, await checksIn(out), status, text) };
    }
    return;
  }
  const limit = names.length * LIMIT + GRACE;
  const { text } = await suite(['server', '--suite', 'all', '--spec-version', leg, '--url', url, '-o', folder], limit);
  const written = await readdir(folder);
  for (const name of names) {
    // The folder of a scenario ends with the time. No name begins with another one and a year.
    const [of, ...more] = written.filter((entry) => entry.startsWith(`server-${name}-20`));
    const checks = of === undefined || more.length > 0 ? [] : await checksIn(join(folder, of));
    // The status is that of all scenarios together, each of which is judged by its checks.
    yield { name, ...verdict(name, checks, 0, text) };
  }
}

/** A client of ours in one leg. Only when a scenario is run by itself does the suite look at how the client ends. */
async function* client(leg, names, command, folder) {
  const [, version = leg] = /^extensions over (.*)/.exec(leg) ?? [];
  const force = version === leg ? [] : ['--force'];
  const outcomes = new Map();
  const left = [...names];
  const lane = async () => {
    for (let name; (name = left.shift()) !== undefined; ) {
      const out = await fresh(folder, name);
      const args = ['--scenario', name, '--command', command, '--spec-version', version, ...force];
      const { status, text } = await suite(['client', ...args, '-o', out, '--timeout', String(LIMIT)]);
      outcomes.set(name, { name, ...verdict(name, await checksIn(out), status, text) });
    }
  };
  await Promise.all(Array.from({ length: LANES }, lane));
  for (const name of names) yield outcomes.get(name);
}

async function fresh(folder, name) {
  const out = join(folder, name.replaceAll('/', '_'));
  await mkdir(out, { recursive: true });
  return out;
}

const [examples, ...adapters] = process.argv.slice(2);
const scratch = await mkdtemp(join(tmpdir(), 'mcp-conformance-'));
const total = { passed: 0, failed: 0, skipped: 0 };
const table = [];

/** Says what came of each scenario of a leg, and counts. */
async function report(adapter, side, leg, outcomes) {
  const sum = { passed: 0, failed: 0, skipped: 0 };
  console.log(`\n== ${side === 'server' ? `everything-${adapter}` : `conformance-client-${adapter}`}, ${leg}`);
  for await (const { name, outcome, why } of outcomes) {
    sum[outcome]++;
    total[outcome]++;
    console.log(`${{ passed: 'ok', failed: 'FAIL', skipped: 'skip' }[outcome]} ${name}`);
    for (const line of why) console.log(`     ${line}`);
  }
  table.push([adapter, side, leg, sum]);
}

try {
  for (const adapter of adapters) {
    const running = await start(join(examples, `everything-${adapter}`));
    try {
      for (const [leg, expected] of Object.entries(LEGS.server)) {
        const folder = await fresh(scratch, `${adapter} server ${leg}`);
        const names = await scenariosOf('server', leg, expected);
        await report(adapter, 'server', leg, server(leg, names, running.url, folder));
      }
      if (!running.isRunning()) throw new Error(`everything-${adapter} ended by itself`);
    } finally {
      running.stop();
    }
    const command = join(examples, `conformance-client-${adapter}`);
    for (const [leg, expected] of Object.entries(LEGS.client)) {
      const folder = await fresh(scratch, `${adapter} client ${leg}`);
      await report(adapter, 'client', leg, client(leg, await scenariosOf('client', leg, expected), command, folder));
    }
  }
} catch (error) {
  console.log(`FAIL ${error.message}`);
  total.failed++;
} finally {
  await rm(scratch, { recursive: true, force: true });
}

console.log('');
for (const [adapter, side, leg, { passed, failed, skipped }] of table) {
  const row = [adapter.padEnd(9), side.padEnd(7), leg.padEnd(27), `${passed} of ${passed + failed}`.padStart(9)];
  console.log(`${row.join('')}${skipped > 0 ? `  (${skipped} skipped by the suite)` : ''}`);
}
console.log(`\n${total.passed} passed, ${total.failed} failed`);
process.exit(total.failed > 0 ? 1 : 0);
