// Kills a server behind our proxy in the middle of a call. Its call fails with an error that names it, the other server
// is not affected, and the server is started and listed again.
import { strict as assert } from 'node:assert';
import { spawn } from 'node:child_process';
import { readFileSync, readdirSync, writeFileSync } from 'node:fs';

const [proxy, server, file] = process.argv.slice(2);
// An argument tells the two programs apart.
const dying = { command: server, args: ['--page-size', '7'] };
writeFileSync(file, JSON.stringify({ mcpServers: { dying, other: { command: server } } }));

const child = spawn(proxy, [file], { stdio: ['pipe', 'pipe', 'inherit'] });
const waiting = new Map();
let heard = () => {};
let buffer = '';
child.stdout.on('data', (data) => {
  const lines = (buffer + data).split('\n');
  buffer = lines.pop();
  for (const message of lines.map((line) => JSON.parse(line))) {
    if (message.method === undefined) waiting.get(message.id)(message);
    else heard(message.method);
  }
});
const write = (message) => child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
let last = 0;
const ask = (method, params) =>
  new Promise((resolve) => {
    const id = ++last;
    waiting.set(id, resolve);
    write({ id, method, params });
  });
const call = (name, args) => ask('tools/call', { name, arguments: args });

/** The process of the server that is killed: the child of the proxy with that argument. */
function victim() {
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    try {
      const parent = readFileSync(`/proc/${pid}/stat`, 'utf8').replace(/^.*\) \S /s, '').split(' ')[0];
      const isOurs = Number(parent) === child.pid;
      if (isOurs && readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('--page-size')) return Number(pid);
    } catch {
      // It has ended in the meantime.
    }
  }
  throw new Error('the server does not run');
}

const limit = setTimeout(() => {
  console.error('nothing happens any more');
  child.kill();
  process.exit(1);
}, 60_000);
const clientInfo = { name: 'faults', version: '1' };
await ask('initialize', { protocolVersion: '2025-11-25', capabilities: {}, clientInfo });
write({ method: 'notifications/initialized' });
const lost = call('dying__test_slow', { ms: 60_000 });
const kept = call('other__test_slow', { ms: 1000 });
await ask('ping');
const changed = new Promise((resolve) => {
  heard = (method) => method === 'notifications/tools/list_changed' && resolve();
});
process.kill(victim(), 'SIGKILL');
const { error } = await lost;
assert.deepEqual(error.data, { backend: 'dying', reason: 'closed' });
assert.match(error.message, /SIGKILL/);
assert.equal((await kept).result.content[0].text, 'slow done');
await changed;
assert.equal((await call('dying__greet', { name: 'Ada' })).result.content[0].text, 'Hello, Ada!');
child.stdin.end();
const code = await new Promise((resolve) => child.on('exit', resolve));
assert.equal(code, 0);
clearTimeout(limit);
