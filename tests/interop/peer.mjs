// A connection to a server under test, the same for both generations of the TypeScript SDK. Everything that passes is
// recorded, so that a task can look at what the SDK hides: error codes, late answers, single pages.
import assert from 'node:assert/strict';
import { ask, noteByHand, Server, tell } from './served.mjs';

export const PATIENCE = 10_000;

/** From this revision on there is no session: every request says who asks. */
export const MODERN = '2026-07-28';

const KEYS = {
  version: 'io.modelcontextprotocol/protocolVersion',
  info: 'io.modelcontextprotocol/clientInfo',
  capabilities: 'io.modelcontextprotocol/clientCapabilities',
};

const NOTIFICATIONS = [
  'notifications/message',
  'notifications/resources/updated',
  'notifications/resources/list_changed',
  'notifications/tools/list_changed',
  'notifications/prompts/list_changed',
  'notifications/elicitation/complete',
];

/** What passes through a transport. The transport stays the one that the SDK knows, which looks at what it is given. */
class Wire {
  /** Every message: `{ from: 'client' | 'server', message }`. */
  log = [];
  /** Requests written by hand, which the SDK knows nothing of: id to what takes the reply. */
  byHand = new Map();
  /** Requests that were given up without a word. */
  hungUp = new Set();
  /** What is being written. */
  #onTheirWay = new Set();

  constructor(transport, version) {
    this.version = version;
    /** Writes a message that is not recorded. */
    this.write = transport.send.bind(transport);
    const start = transport.start.bind(transport);
    transport.send = (message, options) => this.send(message, options);
    transport.start = async () => {
      await start();
      if (transport._process === undefined) return;
      this.exit = new Promise((resolve) => transport._process.once('exit', (code, signal) => resolve({ code, signal })));
    };
    let hear;
    Object.defineProperty(transport, 'onmessage', {
      get: () => hear && ((message, extra) => this.receive(message, extra, hear)),
      set: (heard) => (hear = heard),
    });
  }

  receive(message, extra, hear) {
    this.log.push({ from: 'server', message });
    const waiting = 'method' in message ? undefined : this.byHand.get(message.id);
    if (waiting === undefined) return hear(message, extra);
    this.byHand.delete(message.id);
    waiting(message);
  }

  async send(message, options) {
    if (message.method === 'initialize' && this.version < MODERN) {
      message = { ...message, params: { ...message.params, protocolVersion: this.version } };
    }
    this.log.push({ from: 'client', message });
    const written = this.write(message, options);
    this.#onTheirWay.add(written);
    try {
      await written;
    } finally {
      this.#onTheirWay.delete(written);
    }
  }

  /** Sends a message that a task has written. */
  sendByHand(message) {
    noteByHand(message);
    return this.send(message);
  }

  /** Writes a message that a task has written, and does not record it. */
  writeByHand(message) {
    noteByHand(message);
    return this.write(message);
  }

  /** Waits for what is on its way: a session is not to end before what was said in it has come there. */
  async rest() {
    while (this.#onTheirWay.size > 0) await Promise.allSettled(this.#onTheirWay);
  }
}

const INFO = { name: 'interop', version: '1.0.0' };

/** What comes of a promise, unless it takes too long. */
export function within(limit, promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not done after ${limit} ms`)), limit);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
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
  #stderr = '';
  #leaving = false;
  #heard = new Set();
  #nextByHand = 1;

  /**
   * Starts `command` and connects to it, over its standard input and output, or over HTTP: `carrier` is `stdio`, `http`, or
   * `sse` for the transport of 2024-11-05. `sdk` is what differs between the generations.
   */
  static async open(sdk, { command, args, version, mode, carrier, patience = PATIENCE }) {
    const peer = new Peer();
    peer.sdk = sdk;
    peer.version = version;
    peer.isModern = version >= MODERN;
    peer.carrier = carrier;
    if (carrier !== 'stdio') peer.server = await Server.start(command, args, carrier, patience);
    const transport =
      peer.server === undefined ? sdk.stdio({ command, args, stderr: 'pipe' }) : sdk[carrier](peer.server.url);
    peer.transport = transport;
    transport.stderr?.on('data', (chunk) => (peer.#stderr = (peer.#stderr + chunk).slice(-10_000)));
    peer.wire = new Wire(transport, version);
    peer.client = sdk.client(INFO, { capabilities: CAPABILITIES }, mode);
    // A client that leaves closes the stream that the SDK listens to, which the SDK reports to its own log.
    const hangsUp = (error) => peer.#leaving && /AbortError/.test(String(error));
    peer.client.onerror = (error) => hangsUp(error) || peer.errors.push(error);
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
    await peer.client.connect(transport, { timeout: patience });
    return peer;
  }

  /** The end of what the server wrote to its standard error. */
  get stderr() {
    return this.server?.stderr ?? this.#stderr;
  }

  /** The era and the revision of this connection. */
  get agreed() {
    return this.sdk.agreed?.(this.client) ?? { era: 'legacy', version: this.initialized.protocolVersion };
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

  /**
   * The ids of the requests that the client has given up, in their order. Without a session, hanging up is all there is to
   * say over HTTP: then they are those that were not answered.
   */
  givenUp(from = 0) {
    if (!this.hangsUp) return this.sent('notifications/cancelled', from).map(({ params }) => params.requestId);
    assert.deepEqual(this.sent('notifications/cancelled', from), [], 'the client said that it gives up');
    const asked = this.wire.log.slice(from).filter((entry) => entry.from === 'client' && 'method' in entry.message);
    const open = asked.map(({ message }) => message.id).filter((id) => id !== undefined && !this.reply(id));
    for (const id of open) this.wire.hungUp.add(id);
    return open;
  }

  /** Whether a request is cancelled by closing what carries it. */
  get hangsUp() {
    return this.isModern && this.carrier === 'http';
  }

  /** What the server asked with this method, in either era: the params of its requests, or of those in its results. */
  asked(method, from = 0) {
    const messages = this.wire.log.slice(from).filter((entry) => entry.from === 'server').map(({ message }) => message);
    const requests = messages.flatMap(({ result, ...message }) => [message, ...Object.values(result?.inputRequests ?? {})]);
    return requests.filter((request) => request.method === method).map(({ params }) => params);
  }

  /** Calls a tool. */
  call(name, args, options) {
    return this.sdk.callTool(this.client, args === undefined ? { name } : { name, arguments: args }, options);
  }

  /** What every request of the modern era says, with these capabilities. */
  envelope(capabilities = CAPABILITIES) {
    return { [KEYS.version]: this.version, [KEYS.info]: INFO, [KEYS.capabilities]: capabilities };
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

  /**
   * Sends a request that the SDK knows nothing of, and gives back the whole response. In the modern era it says what
   * every request says, as far as it does not say so itself.
   */
  byHand(method, params, id) {
    const meta = this.isModern ? { _meta: { ...this.envelope(), ...params?._meta } } : {};
    return this.bare(method, this.isModern ? { ...params, ...meta } : params, id);
  }

  /** The same with exactly these params. */
  bare(method, params, id = `by hand ${this.#nextByHand++}`) {
    const message = { jsonrpc: '2.0', id, method, ...(params === undefined ? {} : { params }) };
    // Over HTTP an answer may be an error of HTTP, too, of which the SDK shows little.
    if (this.carrier === 'http') return ask(this, message);
    const reply = new Promise((resolve) => this.wire.byHand.set(id, resolve));
    return this.wire.sendByHand(message).then(() => reply);
  }

  /** Sends a notification that the SDK knows nothing of. */
  tellByHand(method) {
    const message = { jsonrpc: '2.0', method };
    return this.carrier === 'http' ? tell(this, message) : this.wire.sendByHand(message);
  }

  /** The smallest request of the era. */
  get smallest() {
    return this.isModern ? 'server/discover' : 'ping';
  }

  /** Waits for everything that the server had queued. */
  async settle(patience = PATIENCE) {
    const { error } = await within(patience, this.byHand(this.smallest));
    assert.equal(error, undefined);
  }

  /** Has the server tell of changes, which it does unasked in a session. Gives back what ends that. */
  async watch(filter) {
    if (!this.isModern) return async () => {};
    const subscription = await this.client.listen(filter);
    return () => subscription.close();
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

  /** Ends the connection, once, and says how the server ended. */
  close() {
    this.ended ??= this.server === undefined ? this.client.close().then(() => this.wire.exit) : this.#leave();
    return this.ended;
  }

  /** Ends the session where there is one, and then the server, which has to be there still. */
  async #leave() {
    await within(PATIENCE, this.wire.rest());
    this.#leaving = true;
    if (this.transport.sessionId !== undefined) await this.transport.terminateSession();
    await this.client.close();
    return this.server.stop();
  }
}

/** Whether a request is one of the modern era. */
const claims = (request) => request.params?._meta?.[KEYS.version] !== undefined;

/** Confirms what must hold for every connection, whatever was done with it. */
export function checkSession(peer) {
  const answered = new Map();
  const cancelled = new Set(peer.wire.hungUp);
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
      const request = asked[other].get(message.id);
      assert(request, `${from} answered ${JSON.stringify(message)}, which was not asked`);
      const key = `${from} ${typeof message.id} ${message.id}`;
      assert(!answered.has(key), `${from} answered ${message.id} twice`);
      assert(from === 'client' || !cancelled.has(message.id), `the server answered ${message.id} after it was cancelled`);
      answered.set(key, message);
      if (from === 'server' && message.result !== undefined) checkResult(request, message.result);
    }
  }
  for (const [id, request] of asked.client) {
    // A subscription ends when it is hung up on.
    if (peer.hangsUp && request.method === 'subscriptions/listen') continue;
    assert(answered.has(`server ${typeof id} ${id}`) || cancelled.has(id), `${request.method} (${id}) was never answered`);
  }
  for (const [id, { method }] of asked.server) {
    assert(answered.has(`client ${typeof id} ${id}`), `the client never answered ${method} (${id})`);
  }
  if (peer.isModern) assert.deepEqual([...asked.server.values()], [], 'the server asked without being asked');
  assert.deepEqual(peer.errors.map(String), [], 'the SDK complained');
}

const ASKING = ['tools/call', 'prompts/get', 'resources/read'];
const CACHEABLE = [
  'server/discover',
  'tools/list',
  'prompts/list',
  'resources/list',
  'resources/templates/list',
  'resources/read',
  'skills/list',
  'skills/get',
];

/** Confirms that a result has what the era asks for, and nothing of the other one. */
function checkResult(request, result) {
  const { resultType, ttlMs, cacheScope } = result;
  const shown = `the result of ${request.method}: ${JSON.stringify(result)}`;
  if (!claims(request)) {
    for (const name of ['resultType', 'cacheScope', 'ttlMs']) assert(!(name in result), shown);
    return;
  }
  assert(resultType === 'complete' || (resultType === 'input_required' && ASKING.includes(request.method)), shown);
  assert.equal(result._meta?.['io.modelcontextprotocol/serverInfo']?.name, 'everything', shown);
  if (resultType === 'complete' && CACHEABLE.includes(request.method)) {
    assert(Number.isInteger(ttlMs) && ttlMs >= 0, shown);
    assert(['public', 'private'].includes(cacheScope), shown);
  } else {
    assert(ttlMs === undefined && cacheScope === undefined, shown);
  }
}
