// A server under test behind `mcp record`, over HTTP, as the clients of this folder start a server:
// node recorded.mjs MCP RECORD COMMAND [ARGS...] --http ADDRESS
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';

const [mcp, record, command, ...args] = process.argv.slice(2);
const server = spawn(command, args, { stdio: ['ignore', 'ignore', 'pipe'] });
let recorder;

for (const signal of ['SIGTERM', 'SIGINT']) process.on(signal, () => server.kill(signal));
// Without the server there is nothing to record.
server.on('exit', (code) => (recorder === undefined ? process.exit(code ?? 1) : recorder.kill()));

/** Says on the error output where the recorder is, as the server does it. */
function start(address) {
  recorder = spawn(mcp, ['record', '--listen', '127.0.0.1:0', '-o', record, `${address}/mcp`], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  recorder.on('exit', () => (server.exitCode ?? server.signalCode) === null ? process.exit(1) : process.exit(0));
  createInterface({ input: recorder.stderr, crlfDelay: Infinity }).on('line', (line) => {
    const [, at] = /listening at (http:\/\/[^/]+)\//.exec(line) ?? [];
    console.error(at === undefined ? line : `at ${at} \n`);
  });
}

createInterface({ input: server.stderr, crlfDelay: Infinity }).on('line', (line) => {
  const [, at] = /^at (http:\/\/[^/\s]+)/.exec(line) ?? [];
  if (at === undefined || recorder !== undefined) console.error(line);
  else start(at);
});
