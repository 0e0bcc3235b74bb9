// A connection to a server under test, the same for both generations of the TypeScript SDK. Everything that passes is
// recorded, so that a task can look at what the SDK hides: error codes, late answers, single pages.
import assert from 'node:assert/strict';

export const PATIENCE = 10_000;

const NOTIFICATIONS = [
  'notifications/message',
  'notifications/resources/updated',
  'notifications/resources/list_changed',
  'notifications/tools/list_changed',
  'notifications/prompts/list_changed',
  'notifications/elicitation/complete',
];

/** A transport that records what passes through another one. */
class Wire {
  /** Every message: `{ from: 'client' | 'server', message }`. */
  log = [];
  /** Requests written by hand, which the SDK knows nothing of: id to what takes the reply. */
  byHand = new Map();

  constructor(inner, version) {
    this.inner = inner;
    this.version = version;
  }

  async start() {
    this.inner.onclose = () => this.onclose?.();
    this.inner.onerror = (error) => this.onerror?.(error);
    this.inner.onmessage = (message, extra) => {
      this.log.push({ from: 'server', message });
      const waiting = 'method' in message ? undefined : this.byHand.get(message.id);
      if (waiting === undefined) {
        this.onmessage?.(message, extra);
      } else {
        this.byHand.delete(message.id);
        waiting(message);
      }
    };
    await this.inner.start();
    this.process = this.inner._process;
    this.exit = new Promise((resolve) => this.process.once('exit', (code, signal) => resolve({ code, signal })));
  }

  async send(message, options) {
    if (message.method === 'initialize' && this.version !== undefined) {
      message = { ...message, params: { ...message.params, protocolVersion: this.version } };
    }
    this.log.push({ from: 'client', message });
    await this.inner.send(message, options);
  }

  async close() {
    await this.inner.close();
  }
}

/** Capabilities of every client made here. */
const CAPABILITIES = {
  roots: { listChanged: true },
  sampling: { tools: {} },
  elicitation: { form: {}, url: {} },
};

export class Peer {
  /** What the SDK complained about on the side. */
  errors = [];
  /** Every notification as the SDK delivered it. */
  notifications = [];
  /** What answers the server's questions; tasks put their own in. */
  answers = {};
  #heard = new Set();
  #nextByHand = 1;

  /** Starts `command` and opens a session. `sdk` is what differs between the generations. */
  static async open(sdk, { command, args, version }) {
    const peer = new Peer();
    peer.sdk = sdk;
    const transport = sdk.transport({ command, args, stderr: 'pipe' });
    peer.stderr = '';
    transport.stderr.on('data', (chunk) => (peer.stderr = (peer.stderr + chunk).slice(-10_000)));
    peer.wire = new Wire(transport, version);
    peer.client = sdk.client({ name: 'interop', version: '1.0.0' }, { capabilities: CAPABILITIES });
    peer.client.onerror = (error) => peer.errors.push(error);
    for (const method of ['sampling/createMessage', 'elicitation/create', 'roots/list']) {
      sdk.onRequest(peer.client, method, async (params, extra) => {
        const answer = peer.answers[method];
        assert(answer, `nothing answers ${method}`);
        return answer(params, extra);
      });
    }
    for (const method of NOTIFICATIONS) {
      sdk.onNotification(peer.client, method, (params) => {
        peer.notifications.push({ method, params });
        for (const look of peer.#heard) look();
      });
    }
    await peer.client.connect(peer.wire, { timeout: PATIENCE });
    return peer;
  }

  /** The result of `initialize` as it came. */
  get initialized() {
    const [asked] = this.sent('initialize');
    return this.reply(asked.id).result;
  }

  /** What the client sent with this method. */
  sent(method, from = 0) {
    return this.wire.log
      .slice(from)
      .filter((entry) => entry.from === 'client' && entry.message.method === method)
      .map((entry) => entry.message);
  }

  /** The server's answer to the request with this id. */
  reply(id) {
    return this.wire.log.find((entry) => entry.from === 'server' && !('method' in entry.message) && entry.message.id === id)
      ?.message;
  }

  /** Calls a tool. */
  call(name, args, options) {
    return this.sdk.callTool(this.client, args === undefined ? { name } : { name, arguments: args }, options);
  }

  /** One page of a list. */
  page(method, cursor) {
    return this.sdk.request(this.client, method, cursor === undefined ? {} : { cursor });
  }

  /** All entries of a list, page by page. */
  async all(method, member) {
    const entries = [];
    let cursor;
    for (let pages = 0; pages < 100; pages++) {
      const page = await this.page(method, cursor);
      entries.push(...page[member]);
      cursor = page.nextCursor;
      if (cursor === undefined) return entries;
    }
    throw new Error(`${method} never ends`);
  }

  /** The error object with which the server refuses what `start` asks. */
  async refusal(start) {
    const from = this.wire.log.length;
    await assert.rejects(start, 'the request succeeded');
    const entry = this.wire.log.slice(from).find(({ from, message }) => from === 'server' && 'error' in message);
    assert(entry, 'no error came from the server');
    return entry.message.error;
  }

  /** Sends a request that the SDK knows nothing of, and gives back the whole response. */
  byHand(method, params, id = `by hand ${this.#nextByHand++}`) {
    const reply = new Promise((resolve) => this.wire.byHand.set(id, resolve));
    const message = { jsonrpc: '2.0', id, method, ...(params === undefined ? {} : { params }) };
    return this.wire.send(message).then(() => reply);
  }

  /** Waits for everything that the server had queued. */
  async settle() {
    await this.client.ping({ timeout: PATIENCE });
  }

  /** The next notification of a method, counted from `since`, for which `fits` holds. */
  heard(method, since, fits = () => true) {
    return new Promise((resolve, reject) => {
      const look = () => {
        const found = this.notifications.slice(since).find((seen) => seen.method === method && fits(seen.params));
        if (found === undefined) return;
        clearTimeout(timer);
        this.#heard.delete(look);
        resolve(found.params);
      };
      const timer = setTimeout(() => {
        this.#heard.delete(look);
        reject(new Error(`no ${method} came`));
      }, PATIENCE);
      this.#heard.add(look);
      look();
    });
  }

  /** Ends the session and says how the server ended. */
  async close() {
    await this.client.close();
    return this.wire.exit;
  }
}

/** Confirms what must hold for every session, whatever was done with it. */
export function checkSession(peer) {
  const answered = new Map();
  const cancelled = new Set();
  const asked = { client: new Map(), server: new Map() };
  const progress = new Map();
  for (const { from, message } of peer.wire.log) {
    assert.equal(message.jsonrpc, '2.0', `${from} sent ${JSON.stringify(message)}`);
    if ('method' in message && 'id' in message) {
      assert(!asked[from].has(message.id), `${from} used the id ${message.id} twice`);
      asked[from].set(message.id, message);
    } else if (message.method === 'notifications/cancelled') {
      if (from === 'client') cancelled.add(message.params.requestId);
    } else if (message.method === 'notifications/progress' && from === 'server') {
      const { progressToken, progress: value } = message.params;
      assert(value > (progress.get(progressToken) ?? -Infinity), `progress of ${progressToken} fell back to ${value}`);
      progress.set(progressToken, value);
    } else if (!('method' in message)) {
      const other = from === 'client' ? 'server' : 'client';
      assert(asked[other].has(message.id), `${from} answered ${JSON.stringify(message)}, which nobody asked`);
      const key = `${from} ${typeof message.id} ${message.id}`;
      assert(!answered.has(key), `${from} answered ${message.id} twice`);
      assert(from === 'client' || !cancelled.has(message.id), `the server answered ${message.id} after it was cancelled`);
      answered.set(key, message);
    }
  }
  for (const [id, { method }] of asked.client) {
    assert(answered.has(`server ${typeof id} ${id}`) || cancelled.has(id), `${method} (${id}) was never answered`);
  }
  for (const [id, { method }] of asked.server) {
    assert(answered.has(`client ${typeof id} ${id}`), `the client never answered ${method} (${id})`);
  }
  assert.deepEqual(peer.errors.map(String), [], 'the SDK complained');
}
