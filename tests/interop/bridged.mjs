// A server under test behind `mcp bridge`, as the clients of this folder start a server:
// node bridged.mjs MCP modern|legacy COMMAND [ARGS...] [--http ADDRESS]
//
// With `--http`, the bridge offers COMMAND over HTTP. Without it, the bridge offers COMMAND, which is started over HTTP,
// over standard input and output. For `legacy` the server behind knows sessions only.
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const SELF = fileURLToPath(import.meta.url);
const [mcp, era, command, ...args] = process.argv.slice(2);

/** Ends this process with a child, and the child with this process. */
function follow(child) {
  for (const signal of ['SIGTERM', 'SIGINT']) process.on(signal, () => child.kill(signal));
  child.on('exit', (code, signal) => process.exit(signal === null ? code : 1));
}

/** Calls `hear` with each line of a stream. */
function lines(stream, hear) {
  createInterface({ input: stream, crlfDelay: Infinity }).on('line', hear);
}

/** Runs a server over standard input and output that refuses requests of 2026-07-28, as one that does not know them. */
function legacy() {
  const server = spawn(command, args, { stdio: ['pipe', 'inherit', 'inherit'] });
  follow(server);
  const input = createInterface({ input: process.stdin, crlfDelay: Infinity });
  input.on('line', (line) => {
    const { id, method, params } = JSON.parse(line);
    const isModern = params?._meta?.['io.modelcontextprotocol/protocolVersion'] !== undefined;
    if (!isModern || id === undefined) return server.stdin.write(`${line}\n`);
    const error = { code: -32601, message: `Method not found: ${method}` };
    process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', id, error })}\n`);
  });
  input.on('close', () => server.stdin.end());
}

/** Offers the server over HTTP. */
function overHttp(address) {
  const behind = era === 'legacy' ? [process.execPath, SELF, mcp, 'refuse', command, ...args] : [command, ...args];
  const bridge = spawn(mcp, ['bridge', '--name', 'everything', '--listen', address, '--shared', '--', ...behind], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  follow(bridge);
  lines(bridge.stderr, (line) => {
    const [, at] = /listening at (http:\/\/[^/]+)\//.exec(line) ?? [];
    console.error(at === undefined ? line : `at ${at} \n`);
  });
}

/** Offers the server, which is reached over HTTP, over standard input and output. */
function overStdio() {
  const server = spawn(command, [...args, '--http', '127.0.0.1:0'], { stdio: ['ignore', 'ignore', 'pipe'] });
  // HTTP+SSE has sessions only.
  const path = era === 'legacy' ? '/sse' : '/mcp';
  let bridge;
  lines(server.stderr, (line) => {
    const [, at] = /^at (http:\/\/[^/\s]+)/.exec(line) ?? [];
    if (at === undefined || bridge !== undefined) return console.error(line);
    bridge = spawn(mcp, ['bridge', '--quiet', '--name', 'everything', at + path], { stdio: 'inherit' });
    bridge.on('exit', () => server.kill());
    follow(bridge);
  });
  server.on('exit', (code) => bridge ?? process.exit(code ?? 1));
}

const at = args.indexOf('--http');
const [, address] = at >= 0 ? args.splice(at, 2) : [];
if (era === 'refuse') legacy();
else if (address !== undefined) overHttp(address);
else overStdio();
