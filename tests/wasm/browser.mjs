// Chromium without a window, driven over its debugging protocol on two pipes: no package and no port is needed.

import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const FLAGS = [
  '--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync', '--disable-dev-shm-usage', '--window-size=900,1000',
  '--remote-debugging-pipe',
]

export class Browser {
  #child
  #folder
  #next = 0
  #waiting = new Map()
  #session
  // What the pages have written to the console.
  console = []

  static async start(program) {
    const browser = new Browser()
    browser.#folder = mkdtempSync(join(tmpdir(), 'chromium-'))
    const args = [...FLAGS, `--user-data-dir=${browser.#folder}`, 'about:blank']
    browser.#child = spawn(program, args, { stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'] })
    browser.#child.on('error', (error) => browser.#fail(error))
    browser.#child.on('exit', (code) => browser.#fail(new Error(`the browser has ended with ${code}`)))
    let rest = ''
    browser.#child.stdio[4].on('data', (data) => {
      const parts = (rest + data).split('\0')
      rest = parts.pop()
      parts.forEach((part) => browser.#receive(JSON.parse(part)))
    })
    const { targetInfos } = await browser.#send('Target.getTargets')
    const { targetId } = targetInfos.find((target) => target.type === 'page')
    browser.#session = (await browser.#send('Target.attachToTarget', { targetId, flatten: true })).sessionId
    await browser.#send('Page.enable')
    await browser.#send('Runtime.enable')
    return browser
  }

  // Opens a page in the one tab.
  async open(url) {
    await this.#send('Page.navigate', { url })
  }

  // Returns the value of an expression in the page. A promise is awaited.
  async evaluate(expression) {
    const params = { expression, awaitPromise: true, returnByValue: true }
    const { result, exceptionDetails } = await this.#send('Runtime.evaluate', params)
    if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text)
    return result.value
  }

  async screenshot() {
    const { data } = await this.#send('Page.captureScreenshot', { format: 'png', captureBeyondViewport: true })
    return Buffer.from(data, 'base64')
  }

  async close() {
    const ended = new Promise((resolve) => this.#child.once('exit', resolve))
    await this.#send('Browser.close').catch(() => {})
    const timer = setTimeout(() => this.#child.kill('SIGKILL'), 5000)
    await ended
    clearTimeout(timer)
    rmSync(this.#folder, { recursive: true, force: true, maxRetries: 5 })
  }

  #send(method, params = {}) {
    this.#next += 1
    const id = this.#next
    const message = { id, method, params, ...(this.#session && method !== 'Browser.close' ? { sessionId: this.#session } : {}) }
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject })
      this.#child.stdio[3].write(`${JSON.stringify(message)}\0`)
    })
  }

  #receive(message) {
    if (message.method === 'Runtime.consoleAPICalled') {
      this.console.push(message.params.args.map((arg) => arg.value ?? arg.description).join(' '))
    }
    if (message.method === 'Runtime.exceptionThrown') {
      const { exceptionDetails } = message.params
      this.console.push(exceptionDetails.exception?.description ?? exceptionDetails.text)
    }
    const waiting = this.#waiting.get(message.id)
    if (!waiting) return
    this.#waiting.delete(message.id)
    if (message.error) waiting.reject(new Error(message.error.message))
    else waiting.resolve(message.result)
  }

  #fail(error) {
    for (const { reject } of this.#waiting.values()) reject(error)
    this.#waiting.clear()
  }
}
