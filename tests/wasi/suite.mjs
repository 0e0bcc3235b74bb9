// Tours a server in WASI with our client, and then sends it lines of JSON. Prints a line for each scenario and the sum.
//
//   node suite.mjs PROGRAM.wasm TOUR
//
// TOUR is the program of a tour. The host of the server is Node.js.

import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

const [program, tour] = process.argv.slice(2)
const COMMAND = [process.execPath, '--no-warnings', fileURLToPath(new URL('host.mjs', import.meta.url)), program]
const HELLO = {
  protocolVersion: '2025-11-25',
  capabilities: { elicitation: {} },
  clientInfo: { name: 'suite', version: '1' },
}
const LATE = 60_000
const results = []

function equal(found, expected) {
  const [a, b] = [JSON.stringify(found), JSON.stringify(expected)]
  if (a !== b) throw new Error(`${a} instead of ${b}`)
}

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms))

// Returns the output of a program, which has to end with status 0.
function output([command, ...args]) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'], timeout: LATE })
    let text = ''
    child.stdout.on('data', (data) => { text += data })
    child.stderr.on('data', (data) => { text += data })
    child.on('error', reject)
    child.on('close', (status) => {
      if (status === 0) resolve(text)
      else reject(new Error(`status ${status}: ${text.slice(-4000)}`))
    })
  })
}

// A server and what it has written.
class Server {
  messages = []
  #next = 0
  #waiting = []

  constructor() {
    const [command, ...args] = COMMAND
    this.child = spawn(command, args, { stdio: ['pipe', 'pipe', 'inherit'] })
    // A server that has ended is noticed by its status.
    this.child.stdin.on('error', () => {})
    this.exited = new Promise((resolve) => this.child.on('exit', resolve))
  }

  // Begins to read what the server writes.
  read() {
    createInterface({ input: this.child.stdout }).on('line', (line) => {
      this.messages.push(JSON.parse(line))
      this.#waiting.splice(0).forEach((wake) => wake())
    })
  }

  send(message) {
    this.child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`)
  }

  // Sends a request, and returns its id.
  request(method, params = {}) {
    this.#next += 1
    this.send({ id: this.#next, method, params })
    return this.#next
  }

  call(name, args = {}, meta = undefined) {
    return this.request('tools/call', { name, arguments: args, _meta: meta })
  }

  // Returns the first message for which a condition holds.
  async message(condition) {
    for (;;) {
      const found = this.messages.find(condition)
      if (found) return found
      await new Promise((resolve) => this.#waiting.push(resolve))
    }
  }

  async text(id) {
    const { result, error } = await this.message((it) => it.id === id && !it.method)
    if (!result) throw new Error(JSON.stringify(error))
    return result.content[0].text
  }

  // Begins a session of 2025-11-25.
  async initialize() {
    this.read()
    const id = this.request('initialize', HELLO)
    const { result } = await this.message((it) => it.id === id)
    this.send({ method: 'notifications/initialized' })
    return result
  }

  async close() {
    this.child.stdin.end()
    equal(await this.exited, 0)
  }
}

// Returns the time of the processor that a process has used, in seconds.
function processorTime(pid) {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ')
  return (Number(fields[11]) + Number(fields[12])) / 100
}

const scenarios = {
  async 'end of the input'(server) {
    equal((await server.initialize()).serverInfo.name, 'everything')
    return 'the program has ended with status 0'
  },
  async 'call'(server) {
    await server.initialize()
    equal(await server.text(server.call('greet', { name: 'Ada' })), 'Hello, Ada!')
    return 'Hello, Ada!'
  },
  async 'timer'(server) {
    await server.initialize()
    const start = performance.now()
    await server.text(server.call('test_slow', { ms: 400 }))
    const took = performance.now() - start
    if (took < 400 || took > 5_000) throw new Error(`after ${took} ms`)
    return `after ${Math.round(took)} ms`
  },
  async 'calls beside each other'(server) {
    await server.initialize()
    const start = performance.now()
    const ids = Array.from({ length: 20 }, () => server.call('test_slow', { ms: 500 }))
    await Promise.all(ids.map((id) => server.text(id)))
    const took = performance.now() - start
    if (took > 5_000) throw new Error(`after ${took} ms`)
    return `20 calls of 500 ms after ${Math.round(took)} ms`
  },
  async 'cancel'(server) {
    await server.initialize()
    const id = server.call('test_slow', { ms: 60_000 })
    server.send({ method: 'notifications/cancelled', params: { requestId: id } })
    equal(await server.text(server.call('greet', { name: 'Ada' })), 'Hello, Ada!')
    equal(server.messages.some((it) => it.id === id && !it.method), false)
    return 'no response, and the connection goes on'
  },
  // The functions wait on one stack, at most 16 of them: the first one goes on after the last one.
  async 'functions that wait'(server) {
    await server.initialize()
    const [count, most] = [40, 16]
    const asked = () => server.messages.filter((it) => it.method === 'elicitation/create')
    const ids = Array.from({ length: count }, () => server.call('test_input_required_result_elicitation'))
    await server.message(() => asked().length === most)
    await server.text(server.call('test_slow', { ms: 50 }))
    equal(asked().length, most)
    for (let n = 0; n < count; n += 1) {
      await server.message(() => asked().length > n)
      server.send({ id: asked()[n].id, result: { action: 'accept', content: { name: `n${n}` } } })
    }
    const said = await Promise.all(ids.map((id) => server.text(id)))
    equal(said.sort(), Array.from({ length: count }, (_, n) => `Hello, n${n}!`).sort())
    return `${count} functions, ${most} at once, and another call beside them`
  },
  // A server that blocked in a write would not read, and a client that blocks in a write does not read either.
  async 'client that does not read'(server) {
    const name = 'n'.repeat(500_000)
    server.request('initialize', HELLO)
    server.send({ method: 'notifications/initialized' })
    const ids = Array.from({ length: 6 }, () => server.call('greet', { name }))
    await new Promise((resolve) => server.child.stdin.write('\n', resolve))
    server.read()
    for (const id of ids) equal((await server.text(id)).length, name.length + 8)
    return `${ids.length} requests of ${name.length} bytes were read before a response was`
  },
  async 'idle'(server) {
    await server.initialize()
    server.call('test_slow', { ms: 60_000 })
    await server.text(server.call('greet', { name: 'Ada' }))
    await sleep(500)
    const before = processorTime(server.child.pid)
    await sleep(2_000)
    const used = processorTime(server.child.pid) - before
    if (used > 0.1) throw new Error(`${used} seconds in 2 seconds`)
    return `${used} seconds of the processor in 2 seconds`
  },
}

function note(name, ok, seen) {
  results.push(ok)
  console.log(`${ok ? 'ok    ' : 'FAILED'} ${name}: ${seen}`)
}

async function attempt(name, run) {
  const late = sleep(LATE).then(() => { throw new Error(`no result in ${LATE / 1000} seconds`) })
  try {
    note(name, true, await Promise.race([run(), late]))
  } catch (error) {
    note(name, false, error.stack)
  }
}

for (const era of ['legacy', 'modern']) {
  await attempt(`tour, ${era}`, async () => {
    const text = await output([tour, '--era', era, '--', ...COMMAND])
    const verdict = text.split('\n').find((line) => line.includes('ok: no violations'))
    if (!verdict) throw new Error(text.slice(-4000))
    return verdict.trim()
  })
}
for (const [name, run] of Object.entries(scenarios)) {
  const server = new Server()
  await attempt(name, async () => {
    const seen = await run(server)
    await server.close()
    return seen
  })
  server.child.kill('SIGKILL')
}
const failed = results.filter((ok) => !ok).length
console.log(`\n${results.length - failed} passed, ${failed} failed`)
process.exit(failed === 0 ? 0 : 1)
