// Drives the worker: it is loaded here, as a server platform would load it, and TypeScript clients reach it over HTTP.

import { readFileSync } from 'node:fs'
import http from 'node:http'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pathToFileURL } from 'node:url'

// The clients are those of the interop tests.
const peers = createRequire(new URL('../interop/package.json', import.meta.url))
const peer = (name) => import(pathToFileURL(peers.resolve(name)))

// Loads the worker. Each load is an instance with sessions of its own.
async function load(folder) {
  const worker = await import(pathToFileURL(join(folder, 'worker.js')))
  await worker.default({ module_or_path: readFileSync(join(folder, 'worker_bg.wasm')) })
  return worker
}

// Turns requests of Node.js into those of the Fetch standard.
async function startHost(worker) {
  const server = http.createServer(async (incoming, outgoing) => {
    const left = new AbortController()
    outgoing.on('close', () => {
      if (!outgoing.writableFinished) left.abort()
    })
    const hasBody = !['GET', 'HEAD'].includes(incoming.method)
    const request = new Request(`http://${incoming.headers.host}${incoming.url}`, {
      method: incoming.method,
      headers: Object.entries(incoming.headers).filter(([name]) => name !== 'connection'),
      body: hasBody ? Readable.toWeb(incoming) : undefined,
      duplex: 'half',
      signal: left.signal,
    })
    try {
      const response = await worker.respond(request)
      outgoing.writeHead(response.status, Object.fromEntries(response.headers))
      outgoing.flushHeaders()
      for await (const chunk of response.body ?? []) outgoing.write(chunk)
      outgoing.end()
    } catch {
      outgoing.destroy()
    }
  })
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
  return server
}

function equal(found, expected) {
  const [a, b] = [JSON.stringify(found), JSON.stringify(expected)]
  if (a !== b) throw new Error(`${a} instead of ${b}`)
}

async function until(condition) {
  for (let tries = 0; tries < 100; tries += 1) {
    if (condition()) return
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  throw new Error(`it does not come true: ${condition}`)
}

const text = (result) => result.content[0].text

// The clients: the name, a function that connects, and whether it has a session.
async function clients(url) {
  const info = { name: 'typescript', version: '1.0.0' }
  const options = { capabilities: { elicitation: { form: {} } } }
  const answer = async () => ({ action: 'accept', content: { name: 'Grace' } })
  const one = await peer('@modelcontextprotocol/sdk/client/index.js')
  const oneHttp = await peer('@modelcontextprotocol/sdk/client/streamableHttp.js')
  const { ElicitRequestSchema } = await peer('@modelcontextprotocol/sdk/types.js')
  const two = await peer('@modelcontextprotocol/client')
  const second = (mode) => async () => {
    const client = new two.Client(info, { ...options, versionNegotiation: { mode } })
    client.setRequestHandler('elicitation/create', answer)
    const transport = new two.StreamableHTTPClientTransport(new URL(url))
    await client.connect(transport)
    return { client, transport, call: (params, options) => client.callTool(params, options) }
  }
  const first = async () => {
    const client = new one.Client(info, options)
    client.setRequestHandler(ElicitRequestSchema, answer)
    const transport = new oneHttp.StreamableHTTPClientTransport(new URL(url))
    await client.connect(transport)
    return { client, transport, call: (params, options) => client.callTool(params, undefined, options) }
  }
  return [
    ['TypeScript 1, legacy', first, true],
    ['TypeScript 2, legacy', second('legacy'), true],
    ['TypeScript 2, modern', second({ pin: '2026-07-28' }), false],
  ]
}

// What each client does.
const scenarios = {
  async list({ client }) {
    const { tools } = await client.listTools()
    equal([tools.length, tools.find((tool) => tool.name === 'greet')?.description], [7, 'Greets a person'])
    const { contents } = await client.readResource({ uri: 'worker://about' })
    equal(contents[0].text, 'a worker')
    return `${tools.length} tools, 1 resource`
  },
  async call({ call }) {
    const said = text(await call({ name: 'greet', arguments: { name: 'Ada' } }))
    equal(said, 'Hello, Ada!')
    return said
  },
  async progress({ call }) {
    const seen = []
    const result = await call({ name: 'test_tool_with_progress', arguments: {} }, { onprogress: (it) => seen.push(it.progress) })
    equal([text(result), ...seen], ['counted', 0, 50, 100])
    return seen.join(', ')
  },
  async elicitation({ call }) {
    const said = text(await call({ name: 'test_input_required_result_elicitation', arguments: {} }))
    equal(said, 'Hello, Grace!')
    return said
  },
  async cancel({ call }, worker) {
    const before = worker.cancelled()
    const abort = new AbortController()
    setTimeout(() => abort.abort(), 200)
    const result = await call({ name: 'test_slow', arguments: { ms: 60_000 } }, { signal: abort.signal }).catch((error) => error)
    if (!(result instanceof Error)) throw new Error('it was not cancelled')
    await until(() => worker.cancelled() === before + 1)
    return 'the handler has ended'
  },
  async large({ call }) {
    const size = 3_000_000
    equal(text(await call({ name: 'large', arguments: { size } })).length, size)
    const name = 'n'.repeat(size)
    equal(text(await call({ name: 'greet', arguments: { name } })).length, size + 8)
    return `${size} bytes in each direction`
  },
  async together({ call }) {
    const names = Array.from({ length: 50 }, (_, index) => `n${index}`)
    const said = await Promise.all(names.map((name) => call({ name: 'greet', arguments: { name } })))
    equal(said.map(text), names.map((name) => `Hello, ${name}!`))
    return `${names.length} calls`
  },
}

// What only clients with sessions do.
const inSessions = {
  async resume({ call }) {
    const said = text(await call({ name: 'reconnect', arguments: {} }))
    equal(said, 'reconnected')
    return 'the stream was resumed for the response'
  },
  async end({ transport }, worker) {
    const before = worker.sessions()
    await transport.terminateSession()
    await until(() => worker.sessions() === before - 1)
    return `${before - 1} sessions are left`
  },
}

const META = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientInfo': { name: 'raw', version: '1' },
  'io.modelcontextprotocol/clientCapabilities': {},
}

// A request of 2026-07-28 that calls a tool.
function callOf(name, args, more = {}, url = 'http://worker.example/mcp') {
  const params = { name, arguments: args, _meta: { ...META, ...more } }
  return [url, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': 'tools/call',
      'mcp-name': name,
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params }),
  }]
}

// Sends a request of an allowed page that is refused with a status before its head is read.
async function refused(worker, url, init, status) {
  const response = await worker.respond(new Request(url, init))
  equal([response.status, response.headers.get('access-control-allow-origin')], [status, 'https://page.example'])
}

// Requests without a client and without a network.
const raw = {
  async 'cancelled stream'(worker) {
    const before = worker.cancelled()
    const response = await worker.respond(new Request(...callOf('test_slow', { ms: 60_000 }, { progressToken: 1 })))
    equal([response.status, response.headers.get('content-type')], [200, 'text/event-stream'])
    const reader = response.body.getReader()
    const { value } = await reader.read()
    if (!new TextDecoder().decode(value).includes('notifications/progress')) throw new Error('no progress')
    await reader.cancel()
    await until(() => worker.cancelled() === before + 1)
    return 'the handler has ended'
  },
  async 'aborted stream that is not read'(worker) {
    const before = worker.cancelled()
    const abort = new AbortController()
    const [url, init] = callOf('test_slow', { ms: 60_000 }, { progressToken: 1 })
    const response = await worker.respond(new Request(url, { ...init, signal: abort.signal }))
    // The first chunk is in the queue of the stream, and no other one is pulled before it is read.
    await new Promise((resolve) => setTimeout(resolve, 100))
    equal(worker.cancelled(), before)
    abort.abort(new Error('left'))
    await until(() => worker.cancelled() === before + 1)
    const error = await response.text().catch((error) => error)
    equal(error.message, 'left')
    return 'the handler has ended'
  },
  async 'timer of a cancelled task'(worker) {
    const { setTimeout, clearTimeout } = globalThis
    const [time, running] = [1_234_567, new Set()]
    globalThis.setTimeout = (f, ms, ...args) => {
      const timer = setTimeout(f, ms, ...args)
      if (ms > time - 2_000 && ms <= time) running.add(timer)
      return timer
    }
    globalThis.clearTimeout = (timer) => {
      running.delete(timer)
      clearTimeout(timer)
    }
    try {
      const tasks = { 'io.modelcontextprotocol/clientCapabilities': { extensions: { 'io.modelcontextprotocol/tasks': {} } } }
      const { result } = await (await worker.respond(new Request(...callOf('job', { ms: time }, tasks)))).json()
      // The request is over, so that the sleep has no connection any more.
      await new Promise((resolve) => setTimeout(resolve, 100))
      equal(running.size, 1)
      const [url, init] = callOf('job', {})
      const headers = { ...init.headers, 'mcp-method': 'tasks/cancel', 'mcp-name': result.taskId }
      const params = { taskId: result.taskId, _meta: { ...META, ...tasks } }
      const body = JSON.stringify({ jsonrpc: '2.0', id: 2, method: 'tasks/cancel', params })
      equal((await worker.respond(new Request(url, { ...init, headers, body }))).status, 200)
      await until(() => running.size === 0)
    } finally {
      Object.assign(globalThis, { setTimeout, clearTimeout })
    }
    return 'is cleared'
  },
  async 'aborted request'(worker) {
    const before = worker.cancelled()
    const abort = new AbortController()
    setTimeout(() => abort.abort(), 100)
    const [url, init] = callOf('test_slow', { ms: 60_000 })
    const error = await worker.respond(new Request(url, { ...init, signal: abort.signal })).catch((error) => error)
    equal(error.name, 'AbortError')
    await until(() => worker.cancelled() === before + 1)
    return 'the handler has ended'
  },
  async 'other host'(worker) {
    const response = await worker.respond(new Request(...callOf('greet', { name: 'Ada' }, {}, 'http://evil.example/mcp')))
    equal(response.status, 403)
    return '403'
  },
  async 'other path'(worker) {
    const response = await worker.respond(new Request(...callOf('greet', { name: 'Ada' }, {}, 'http://worker.example/other')))
    equal(response.status, 404)
    return '404'
  },
  async 'preflight request'(worker) {
    const ask = (origin) => worker.respond(new Request('http://worker.example/mcp', {
      method: 'OPTIONS',
      headers: { origin, 'access-control-request-method': 'POST' },
    }))
    const allowed = await ask('https://page.example')
    equal([allowed.status, allowed.body], [204, null])
    equal(allowed.headers.get('access-control-allow-origin'), 'https://page.example')
    const refused = await ask('https://evil.example')
    equal([refused.status, refused.headers.get('access-control-allow-origin')], [403, null])
    return '204 for a page that may, 403 for another one'
  },
  async 'body as a whole'(worker) {
    // As in browsers whose requests have no stream of their body.
    const [url, init] = callOf('large', { size: 3 })
    const request = new Request(url, init)
    const { method, headers, signal } = request
    const buffer = await request.arrayBuffer()
    const like = { url, method, headers, signal, arrayBuffer: async () => buffer }
    const response = await worker.respond(like)
    equal([response.status, (await response.json()).result.content[0].text], [200, 'xxx'])
    return 'the response'
  },
  async 'used body'(worker) {
    const request = new Request(...callOf('greet', { name: 'Ada' }))
    await request.text()
    const error = await worker.respond(request).catch((error) => error)
    equal(error.name, 'TypeError')
    return 'an error'
  },
  async 'encoded body'(worker) {
    const [url, init] = callOf('greet', { name: 'Ada' })
    const headers = { ...init.headers, 'content-encoding': 'gzip' }
    equal((await worker.respond(new Request(url, { ...init, headers }))).status, 415)
    return '415'
  },
  async 'too many headers'(worker) {
    const [url, init] = callOf('greet', { name: 'Ada' })
    const headers = { ...init.headers, origin: 'https://page.example' }
    for (let n = 0; n < 25_000; n++) headers[`x-${n}`] = ''
    await refused(worker, url, { ...init, headers }, 431)
    return '431, which the page can read'
  },
  async 'long address'(worker) {
    const [url, init] = callOf('greet', { name: 'Ada' })
    const headers = { ...init.headers, origin: 'https://page.example' }
    await refused(worker, `${url}?${'a'.repeat(1 << 16)}`, { ...init, headers }, 414)
    return '414, which the page can read'
  },
  async 'bad method'(worker) {
    const [url, init] = callOf('greet', { name: 'Ada' })
    const { headers, body, signal } = new Request(url, init)
    equal((await worker.respond({ url, method: 'no method', headers, body, signal })).status, 400)
    return '400'
  },
  async 'request without a signal'(worker) {
    for (const signal of [undefined, null]) {
      const { url, method, headers, body } = new Request(...callOf('greet', { name: 'Ada' }))
      equal((await worker.respond({ url, method, headers, body, signal })).status, 200)
    }
    return 'a response'
  },
  async 'listeners of a signal'(worker) {
    const { signal } = new AbortController()
    let [added, removed] = [0, 0]
    const like = {
      aborted: false,
      addEventListener: (...args) => { added++; signal.addEventListener(...args) },
      removeEventListener: (...args) => { removed++; signal.removeEventListener(...args) },
    }
    for (const request of [callOf('greet', { name: 'Ada' }), callOf('greet', {}, {}, 'http://evil.example/mcp')]) {
      const { url, method, headers, body } = new Request(...request)
      await (await worker.respond({ url, method, headers, body, signal: like })).text()
    }
    equal([added, removed], [2, 2])
    return 'are removed with their requests'
  },
  async 'broken body'(worker) {
    const body = new ReadableStream({ pull: (controller) => controller.error(new Error('lost')) })
    const [url, init] = callOf('greet', { name: 'Ada' })
    const response = await worker.respond(new Request(url, { ...init, body, duplex: 'half' }))
    equal(response.status, 400)
    return '400'
  },
  async 'body of text'(worker) {
    let cancelled = false
    const body = new ReadableStream({
      pull: (controller) => controller.enqueue('text'),
      cancel: () => { cancelled = true },
    })
    const { url, method, headers, signal } = new Request(...callOf('greet', { name: 'Ada' }))
    equal((await worker.respond({ url, method, headers, body, signal })).status, 400)
    await until(() => cancelled)
    return '400, and the stream is cancelled'
  },
}

// Runs all of it, and passes each result to `note`.
export async function inWorker(folder, note) {
  const worker = await load(folder)
  const host = await startHost(worker)
  const attempt = async (name, run) => {
    const late = new Promise((_, reject) => {
      setTimeout(() => reject(new Error('no result in a minute')), 60_000).unref()
    })
    try {
      note(name, true, await Promise.race([run(), late]))
    } catch (error) {
      note(name, false, error.stack)
    }
  }
  try {
    const url = `http://127.0.0.1:${host.address().port}/mcp`
    for (const [name, connect, hasSession] of await clients(url)) {
      let connected
      await attempt(`server in Node.js, ${name}, connect`, async () => {
        connected = await connect()
        return connected.client.getServerVersion().name
      })
      if (!connected) continue
      for (const [scenario, run] of Object.entries({ ...scenarios, ...(hasSession ? inSessions : {}) })) {
        await attempt(`server in Node.js, ${name}, ${scenario}`, () => run(connected, worker))
      }
      await connected.client.close()
    }
    for (const [name, run] of Object.entries(raw)) await attempt(`server in Node.js, ${name}`, () => run(worker))
    await attempt('server in Node.js, close', async () => {
      await worker.close()
      const response = await worker.respond(new Request(...callOf('greet', { name: 'Ada' })))
      equal(response.status, 503)
      return 'further requests get 503'
    })
  } finally {
    host.closeAllConnections()
    host.close()
  }
}
