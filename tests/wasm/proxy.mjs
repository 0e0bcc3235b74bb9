// A proxy between the page and the server, on the origin of the page. It counts what it sees, and cuts streams.
//
// - `/proxy/mcp` passes everything on.
// - `/moved/mcp` redirects there.
// - `/cut/mcp` cuts one stream: the response of the first call of a tool that reports progress, after its first
//   notification, or the first subscription, after the server has acknowledged it. It passes nothing on after that, and
//   the connection ends when the page tells that this message has arrived.

import http from 'node:http'

export const counters = { cancelled: 0, aborted: 0, cut: 0, resumed: 0, listened: 0 }

// How many streams are still to be cut, and the response that is.
let cutsLeft = 0
let held

// Begins a scenario.
export function allowCut() {
  cutsLeft = 1
  held = undefined
  counters.listened = 0
}

// Ends the connection of the stream that is cut.
export function cut() {
  held?.destroy()
  held = undefined
}

async function read(stream) {
  const chunks = []
  for await (const chunk of stream) chunks.push(chunk)
  return Buffer.concat(chunks)
}

// Passes a request on to the server at `target`, a URL.
export async function pass(request, response, target, cutting) {
  const body = await read(request)
  const text = body.toString()
  if (text.includes('"notifications/cancelled"')) counters.cancelled += 1
  if (text.includes('"subscriptions/listen"')) counters.listened += 1
  if (request.headers['last-event-id']) counters.resumed += 1
  const cuts = cutting && (text.includes('test_tool_with_progress') || text.includes('"subscriptions/listen"'))
  const headers = { ...request.headers, host: target.host }
  const upstream = http.request(target, { method: request.method, headers })
  response.on('close', () => {
    if (!response.writableEnded) {
      if (request.method === 'POST') counters.aborted += 1
      upstream.destroy()
    }
  })
  upstream.on('error', () => {
    if (held !== response) response.destroy()
  })
  upstream.on('response', (answer) => {
    response.writeHead(answer.statusCode, answer.headers)
    answer.on('error', () => {
      if (held !== response) response.destroy()
    })
    answer.on('end', () => response.end())
    answer.on('data', (chunk) => {
      response.write(chunk)
      if (cuts && cutsLeft > 0 && chunk.includes('"method"')) {
        cutsLeft -= 1
        counters.cut += 1
        held = response
        upstream.destroy()
      }
    })
  })
  upstream.end(body)
}
