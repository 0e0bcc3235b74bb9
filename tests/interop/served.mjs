// A server under test that is reached over HTTP, and requests that are made to it by hand.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { appendFileSync } from 'node:fs';

const PATIENCE = 10_000;

/** Where the server is for each transport. */
const PATHS = { http: '/mcp', sse: '/sse' };

export class Server {
  stderr = '';

  /** Starts `command`, and waits until it says where it is. */
  static async start(command, args, carrier, patience = PATIENCE) {
    const server = new Server();
    server.child = spawn(command, [...args, '--http', '127.0.0.1:0'], { stdio: ['ignore', 'ignore', 'pipe'] });
    const address = await new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`the server does not say where it is: ${server.stderr}`)), patience);
      server.child.on('error', reject);
      server.exit = new Promise((gone) => server.child.once('exit', (code, signal) => gone({ code, signal })));
      server.exit.then(({ code }) => reject(new Error(`the server ended with status ${code}: ${server.stderr}`)));
      server.child.stderr.on('data', (chunk) => {
        server.stderr = (server.stderr + chunk).slice(-10_000);
        const [, found] = /^at (http:\S+)\s/m.exec(server.stderr) ?? [];
        if (found === undefined) return;
        clearTimeout(timer);
        resolve(found);
      });
    });
    server.url = new URL(PATHS[carrier], address);
    return server;
  }

  /** Ends it. It lives until it is told to end. */
  async stop() {
    const { exitCode: code, signalCode: signal } = this.child;
    assert.deepEqual({ code, signal }, { code: null, signal: null }, 'the server ended before it was told to');
    this.child.kill();
    await this.exit;
    return { code: 0, signal: null };
  }
}

/** The params that are repeated in the header `Mcp-Name`. */
const NAMED = { 'tools/call': 'name', 'prompts/get': 'name', 'resources/read': 'uri' };

/** A text as a header can hold it: what is not plain ASCII, or would not come out as it was, is written in base64. */
function encoded(text) {
  const plain = /^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$/.test(text) && !/^=\?base64\?.*\?=$/.test(text);
  return plain ? text : `=?base64?${Buffer.from(text).toString('base64')}?=`;
}

/** Headers that say again what the message says, as its era has it. */
function headers(peer, { method, params }) {
  const common = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
  if (peer.isModern && params?._meta !== undefined) {
    const name = params?.[NAMED[method] ?? (method.startsWith('tasks/') ? 'taskId' : '')];
    // Headers and body say the same, also where the body says something odd.
    const said = params?._meta?.['io.modelcontextprotocol/protocolVersion'];
    const version = typeof said === 'string' ? said : peer.version;
    const named = typeof name === 'string' ? { 'mcp-name': encoded(name) } : {};
    return { ...common, 'mcp-protocol-version': version, 'mcp-method': method, ...named };
  }
  const { session, version } = peer.beside ?? { session: peer.transport.sessionId, version: peer.version };
  const inSession = session === undefined ? {} : { 'mcp-session-id': session };
  const before = method === 'initialize' || version < '2025-06-18';
  return { ...common, ...inSession, ...(before ? {} : { 'mcp-protocol-version': version }) };
}

/** The messages in a response, be it one JSON text or a stream of events. */
async function messages(response) {
  const text = await response.text();
  if (response.headers.get('content-type')?.startsWith('text/event-stream') !== true) return [JSON.parse(text)];
  const data = text.split('\n\n').map((event) => event.match(/^data: ?(.*)$/gm)?.map((line) => line.slice(5)).join('\n'));
  return data.filter((data) => data?.trim()).map((data) => JSON.parse(data));
}

/** Notes a message that a task has written, so that `records.mjs` does not take its mistakes for those of the SDK. */
export function noteByHand(message) {
  const { INTEROP_BY_HAND: notes } = process.env;
  if (notes !== undefined) appendFileSync(notes, `${JSON.stringify(message)}\n`);
}

const post = (peer, message) => {
  noteByHand(message);
  peer.wire.log.push({ from: 'client', message });
  return fetch(peer.server.url, { method: 'POST', headers: headers(peer, message), body: JSON.stringify(message) });
};

/** Sends a notification of which the SDK knows nothing. */
export async function tell(peer, message) {
  const response = await post(peer, message);
  assert.equal(response.status, 202, `${message.method}: ${await response.text()}`);
}

/** The statuses of the errors that have one of their own without a session. */
const STATUSES = { [-32601]: 404, [-32602]: [200, 400], [-32020]: 400, [-32021]: 400, [-32022]: 400 };

/** Makes a request of which the SDK knows nothing, and gives back the whole response. */
export async function ask(peer, message) {
  const response = await post(peer, message);
  const came = await messages(response);
  for (const message of came) peer.wire.log.push({ from: 'server', message });
  const reply = came.at(-1);
  const shown = `${message.method}: HTTP ${response.status}, ${JSON.stringify(reply)}`;
  assert.equal(reply?.id, message.id, shown);
  const standsAlone = peer.isModern && (peer.beside === undefined || message.params?._meta !== undefined);
  const expected = [(standsAlone && STATUSES[reply.error?.code]) || 200].flat();
  assert(expected.includes(response.status), shown);
  // A session that is begun by hand goes on by hand.
  if (message.method === 'initialize' && reply.result !== undefined) {
    peer.beside = { session: response.headers.get('mcp-session-id'), version: reply.result.protocolVersion };
  }
  return reply;
}
