// The reference servers of npm and PyPI, all behind one proxy, and the same requests to each of them directly:
// node references.mjs 1|2 legacy|modern stdio|http|sse SCRATCH PYTHON PROXY [ARGS...]
//
// What comes through the proxy has to be what the server itself responds. `references.json` has the requests.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { checkSession, MODERN, Peer, within } from './peer.mjs';

/** For one request, and for the start of all servers. */
const LIMIT = 30_000;
const START = 120_000;
const SESSION = '2025-11-25';
const HERE = dirname(fileURLToPath(import.meta.url));
const REFERENCES = JSON.parse(readFileSync(join(HERE, 'references.json'), 'utf8'));

const METHODS = {
  tools: 'tools/list',
  prompts: 'prompts/list',
  resources: 'resources/list',
  resourceTemplates: 'resources/templates/list',
};

const ANSWERS = {
  'sampling/createMessage': async () => ({
    role: 'assistant',
    content: { type: 'text', text: 'Forty-two.' },
    model: 'fixed',
    stopReason: 'endTurn',
  }),
  'elicitation/create': async ({ mode }) => ({
    action: 'accept',
    ...(mode === 'url' ? {} : { content: { name: 'Ada', check: true } }),
  }),
  'roots/list': async () => ({ roots: [{ uri: 'file:///home/ada', name: 'home' }] }),
};

/** The servers with files of their own: what one run writes, no other run sees. */
function servers(scratch, python) {
  const files = join(scratch, 'files');
  const repository = join(scratch, 'repository');
  rmSync(scratch, { recursive: true, force: true });
  for (const folder of [files, repository]) mkdirSync(folder, { recursive: true });
  writeFileSync(join(files, 'note.txt'), 'A file to read.\n');
  const git = (...args) => execFileSync('git', ['-C', repository, ...args], { env: { ...process.env, ...DATES } });
  git('init', '--quiet', '--initial-branch', 'main');
  writeFileSync(join(repository, 'note.txt'), 'one\n');
  git('add', 'note.txt');
  git('-c', 'user.name=Ada', '-c', 'user.email=ada@example.com', 'commit', '--quiet', '--message', 'Begin');
  writeFileSync(join(repository, 'note.txt'), 'two\n');
  const npm = (name, ...args) => ({ command: join(HERE, 'node_modules/.bin', `mcp-server-${name}`), args });
  const pypi = (name, ...args) => ({ command: python[0], args: [...python.slice(1), '-m', `mcp_server_${name}`, ...args] });
  const memory = npm('memory');
  return {
    places: { files, repository },
    commands: {
      everything: npm('everything'),
      filesystem: npm('filesystem', files),
      memory: { command: 'env', args: [`MEMORY_FILE_PATH=${join(scratch, 'memory.jsonl')}`, memory.command] },
      thinking: npm('sequential-thinking'),
      time: pypi('time', '--local-timezone', 'UTC'),
      git: pypi('git', '--repository', repository),
    },
  };
}

/** The ids of commits are the same in each repository. */
const DATES = { GIT_AUTHOR_DATE: '2026-01-01T00:00:00Z', GIT_COMMITTER_DATE: '2026-01-01T00:00:00Z' };

/** One server, reached directly or behind the proxy. */
class Reached {
  /** `prefix` begins the names of its items. `isWithout` says that it is compared without sessions. */
  constructor(peer, places, prefix, isWithout) {
    this.peer = peer;
    this.places = places;
    this.prefix = prefix;
    this.isWithout = isWithout;
  }

  name(name) {
    return this.prefix === '' ? name : `${this.prefix}__${name}`;
  }

  uri(uri) {
    return this.prefix === '' ? uri : `${this.prefix}+${uri}`;
  }

  /** The arguments with the folders of this run. */
  placed(value) {
    const text = JSON.stringify(value).replaceAll(/\{(files|repository)\}/g, (_, name) => this.places[name]);
    return JSON.parse(text);
  }

  /** What both ways have in common: without prefixes, folders of the run, and times. */
  plain(value) {
    const readable = (key, value) => (key === 'blob' && typeof value === 'string' ? Buffer.from(value, 'base64').toString('latin1') : value);
    let text = JSON.stringify(value, readable);
    if (this.prefix !== '') text = text.replaceAll(`"${this.name('')}`, '"').replaceAll(`"${this.uri('')}`, '"');
    for (const [name, place] of Object.entries(this.places)) text = text.replaceAll(place, `{${name}}`);
    text = text.replaceAll(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, 'UUID');
    text = text.replaceAll(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?/g, 'DATE').replaceAll(/\d{1,2}:\d\d:\d\d( [AP]M)?/g, 'TIME');
    return JSON.parse(text);
  }

  /** A result or an error, without what belongs to a connection. */
  async outcome(promise) {
    try {
      const { resultType, ttlMs, cacheScope, _meta: meta, ...result } = await promise;
      const { 'io.modelcontextprotocol/serverInfo': _, ...others } = meta ?? {};
      return this.plain(Object.keys(others).length === 0 ? result : { ...result, _meta: others });
    } catch (error) {
      return this.plain({ code: error.code ?? null, message: String(error.message) });
    }
  }

  /** All entries of a list that are those of this server. */
  async list(member) {
    const own = (entry) =>
      this.prefix === '' || [this.name(''), this.uri('')].some((start) => (entry.uri ?? entry.uriTemplate ?? entry.name).startsWith(start));
    const entries = (await this.peer.all(METHODS[member], member)).filter(own);
    // Without sessions, no tool says how it runs as a task.
    return this.plain(entries.map(({ execution, ...entry }) => (this.isWithout ? entry : { ...entry, execution })));
  }

  /** The outcome of a call, and what came over the wire of its progress: the SDK drops what comes right before a result. */
  async call([tool, args]) {
    const since = this.peer.wire.log.length;
    const result = await this.outcome(this.peer.call(this.name(tool), this.placed(args), { onprogress: () => {} }));
    const came = this.peer.wire.log.slice(since).filter(({ from }) => from === 'server');
    const told = came.filter(({ message }) => message.method === 'notifications/progress').map(({ message }) => message.params);
    return { result, progress: told.map(({ progress, total, message }) => ({ progress, total, message })) };
  }

  ask(method, params) {
    return this.outcome(this.peer.sdk.request(this.peer.client, method, params));
  }

  prompt([name, args]) {
    return this.ask('prompts/get', { name: this.name(name), arguments: args });
  }

  read(uri) {
    return this.ask('resources/read', { uri: this.uri(uri) });
  }

  complete([ref, argument, known]) {
    const named = ref.name === undefined ? { ...ref, uri: this.uri(ref.uri) } : { ...ref, name: this.name(ref.name) };
    const context = known === null ? {} : { context: { arguments: known } };
    return this.ask('completion/complete', { ref: named, argument, ...context });
  }

  /** Subscribes to a resource, changes it, and waits for the notification. */
  async change({ uri, call }) {
    const { peer } = this;
    const since = peer.notifications.length;
    let end = async () => {};
    if (peer.isModern) end = await peer.watch({ resourceSubscriptions: [this.uri(uri)] });
    else await peer.sdk.request(peer.client, 'resources/subscribe', { uri: this.uri(uri) });
    const changed = peer.heard('notifications/resources/updated', since);
    await this.call(call);
    const params = this.plain(await changed);
    await end();
    return params.uri;
  }
}

/** All requests to a server, by name, in their order. */
function* requests({ asks, calls = [], prompts = [], resources = [], completions = [], changes }) {
  const short = (value) => JSON.stringify(value).slice(0, 90);
  for (const member of asks) yield [`list of ${member}`, (reached) => reached.list(member)];
  for (const call of calls) yield [`${call[0]} ${short(call[1])}`, (reached) => reached.call(call)];
  for (const prompt of prompts) yield [`prompt ${prompt[0]} ${short(prompt[1])}`, (reached) => reached.prompt(prompt)];
  for (const uri of resources) yield [`resource ${uri}`, (reached) => reached.read(uri)];
  for (const one of completions) yield [`completion ${short(one)}`, (reached) => reached.complete(one)];
  if (changes !== undefined) yield [`change of ${changes.uri}`, (reached) => reached.change(changes)];
}

const [generation, mode, carrier, scratch, interpreter, proxy, ...more] = process.argv.slice(2);
const { sdk } = await import(`./sdk-v${generation}.mjs`);
const python = interpreter.split(' ');
let passed = 0;
let failed = 0;
const attempt = async (name, body) => {
  try {
    await within(LIMIT, body());
    passed++;
    console.log(`ok ${name}`);
  } catch (error) {
    failed++;
    console.log(`FAIL ${name}: ${error.message?.replaceAll(/\s*\n\s*/g, ' ') ?? error}`);
  }
};

/** What each server responds to a client of the same SDK. */
async function direct() {
  const { places, commands } = servers(join(scratch, 'direct'), python);
  const expected = new Map();
  for (const [server, command] of Object.entries(commands)) {
    const peer = await Peer.open(sdk, { ...command, version: SESSION, mode: 'legacy', carrier: 'stdio', patience: START });
    peer.answers = ANSWERS;
    const reached = new Reached(peer, places, '', mode === 'modern');
    const outcomes = [];
    for (const [, body] of requests(REFERENCES[server])) outcomes.push(await within(LIMIT, body(reached)));
    expected.set(server, outcomes);
    await peer.close();
  }
  return expected;
}

const expected = await direct();
const { places, commands } = servers(join(scratch, 'proxied'), python);
const config = join(scratch, 'servers.json');
writeFileSync(config, JSON.stringify({ mcpServers: commands }));
const version = mode === 'modern' ? MODERN : SESSION;
const command = { command: proxy, args: [...more, config, '--name', 'everything'] };
const peer = await Peer.open(sdk, { ...command, version, mode, carrier, patience: START });
peer.answers = ANSWERS;
for (const [server, reference] of Object.entries(REFERENCES)) {
  const reached = new Reached(peer, places, server, mode === 'modern');
  const outcomes = expected.get(server).values();
  for (const [name, body] of requests(reference)) {
    const outcome = outcomes.next().value;
    await attempt(`${server}: ${name}`, async () => assert.deepEqual(await body(reached), outcome));
  }
}
await attempt('the connection ends by itself and in order', async () => {
  await peer.settle();
  const { code, signal } = await peer.close();
  assert.equal(code, 0, `the proxy ended with status ${code}, signal ${signal}`);
  // A server here sends its result right after the last progress, for which the SDK then has no function any more.
  peer.errors = peer.errors.filter((error) => !/progress notification for an unknown token/.test(String(error)));
  checkSession(peer);
});
if (failed > 0 && peer.stderr !== '') console.error(`standard error of the proxy:\n${peer.stderr}`);
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed > 0 ? 1 : 0);
