// The client in a worker of a page: it runs the scenarios that the page sends, and sends back what they have seen.

import init, { scenario } from './page.js'

globalThis.counter = async () => 0
globalThis.ask = async () => 'Grace'
globalThis.arrived = () => {}
const ready = init()

onmessage = async ({ data }) => {
  try {
    await ready
    postMessage({ ok: true, seen: await scenario(...data) })
  } catch (error) {
    postMessage({ ok: false, seen: String(error) })
  }
}
