// A server of the examples behind a proxy, as the clients of this folder start a server:
// node proxied.mjs PROXY modern|legacy|http|sse SERVER [ARGS...]
//
// SERVER is reached over standard input and output (`modern`), also as one that knows sessions only (`legacy`), over
// Streamable HTTP (`http`), or over HTTP+SSE, which has sessions only (`sse`). The arguments are those of the proxy.
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const BRIDGED = fileURLToPath(new URL('bridged.mjs', import.meta.url));
const PATHS = { http: '/mcp', sse: '/sse' };
const [proxy, backend, command, ...args] = process.argv.slice(2);
const folder = mkdtempSync(join(tmpdir(), 'proxied-'));
process.on('exit', () => rmSync(folder, { recursive: true, force: true }));

/** Runs the proxy in front of a server, given as in a configuration file, and ends with it. */
function front(server, end = () => {}) {
  const file = join(folder, 'servers.json');
  writeFileSync(file, JSON.stringify({ mcpServers: { everything: server } }));
  const child = spawn(proxy, [file, '--prefix', 'none', '--name', 'everything', ...args], { stdio: 'inherit' });
  for (const signal of ['SIGTERM', 'SIGINT']) process.on(signal, () => child.kill(signal));
  child.on('exit', (code, signal) => {
    end();
    process.exit(signal === null ? code : 1);
  });
}

/** Starts the server over HTTP, and the proxy when it says where it is. */
function overHttp() {
  const server = spawn(command, ['--http', '127.0.0.1:0'], { stdio: ['ignore', 'ignore', 'pipe'] });
  process.on('exit', () => server.kill());
  let isThere = false;
  createInterface({ input: server.stderr, crlfDelay: Infinity }).on('line', (line) => {
    const [, at] = /^at (http:\/\/[^/\s]+)/.exec(line) ?? [];
    if (at === undefined || isThere) return;
    isThere = true;
    front({ type: backend, url: at + PATHS[backend] }, () => server.kill());
  });
}

if (backend in PATHS) overHttp();
else if (backend === 'legacy') front({ command: process.execPath, args: [BRIDGED, '', 'refuse', command] });
else front({ command, args: [] });
