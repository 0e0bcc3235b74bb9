// Runs the scenarios of the page in Chromium, and prints a line for each and the sum.
//
//   node suite.mjs FOLDER SERVER
//
// FOLDER has the files of the page and of the worker, SERVER is the program of a server. Variables: CHROMIUM, its
// program; SCREENSHOT, a file for a picture of the page.

import { spawn } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import http from 'node:http'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

import { Browser } from './browser.mjs'
import { allowCut, counters, cut, pass } from './proxy.mjs'
import { inWorker } from './worker.mjs'

const [folder, program] = process.argv.slice(2)
const TYPES = { html: 'text/html', js: 'text/javascript', wasm: 'application/wasm' }
const NAMES = ['list', 'call', 'progress', 'cancel', 'timeout', 'elicitation', 'resume', 'refused', 'redirected']
// Those that need no proxy.
const LOCAL = ['list', 'call', 'progress', 'timeout', 'elicitation']
const ERAS = ['legacy', 'modern']
const results = []

function note(name, ok, seen) {
  results.push(ok)
  console.log(`${ok ? 'ok    ' : 'FAILED'} ${name}: ${seen}`)
}

// Starts the server, and returns the address that it prints.
async function startServer() {
  const child = spawn(program, ['--http', '127.0.0.1:0'], { stdio: ['ignore', 'ignore', 'pipe'] })
  process.on('exit', () => child.kill())
  const address = await new Promise((resolve, reject) => {
    let text = ''
    child.stderr.on('data', (data) => {
      text += data
      const address = text.match(/at (http:\S+)\n/)?.[1]
      if (address) resolve(new URL(address))
    })
    child.on('error', reject)
    child.on('exit', () => reject(new Error(`the server has ended: ${text}`)))
  })
  return { child, address }
}

// Serves the page, the counters and the proxy.
async function startSite(target) {
  const site = http.createServer((request, response) => {
    const path = request.url.split('?')[0]
    if (path === '/proxy/mcp' || path === '/cut/mcp') return void pass(request, response, target, path === '/cut/mcp')
    if (path === '/moved/mcp') return void response.writeHead(307, { location: '/proxy/mcp' }).end()
    if (path === '/arrived') {
      cut()
      return void response.end()
    }
    if (path === '/counters') return void response.end(JSON.stringify(counters))
    const file = path === '/' ? 'index.html' : path.slice(1)
    if (!/^[a-z_]+\.[a-z]+$/.test(file)) return void response.writeHead(404).end()
    response.setHeader('content-type', TYPES[file.split('.').pop()])
    response.end(readFileSync(join(folder, file)))
  })
  await new Promise((resolve) => site.listen(0, '127.0.0.1', resolve))
  return site
}

// Waits until an expression holds in the page.
async function until(browser, expression) {
  for (let tries = 0; tries < 300; tries += 1) {
    if (await browser.evaluate(expression)) return
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  throw new Error(`the page does not reach: ${expression}\n${browser.console.join('\n')}`)
}

// Fills in the form of an elicitation like a user.
async function fillIn(browser) {
  await until(browser, `!document.getElementById('form').hidden`)
  await browser.evaluate(`document.getElementById('name').value = 'Grace'; document.querySelector('#form button').click()`)
}

async function inBrowser(server, origin) {
  const browser = await Browser.start(process.env.CHROMIUM ?? 'chromium')
  try {
    await browser.open(origin)
    await until(browser, 'window.ready === true')
    await browser.evaluate(`document.getElementById('server').textContent = ${JSON.stringify(`Page: ${origin}, server: ${server.href}`)}`)
    const urls = {
      cancel: `${origin}/proxy/mcp`,
      resume: `${origin}/cut/mcp`,
      refused: 'http://127.0.0.1:9/mcp',
      redirected: `${origin}/moved/mcp`,
    }
    const attempt = async (where, name, url, era) => {
      allowCut()
      const run = browser.evaluate(`run(...${JSON.stringify([where, name, url, era])})`)
      const user = name === 'elicitation' && !where.startsWith('worker') ? fillIn(browser) : undefined
      const late = new Promise((resolve) => {
        setTimeout(resolve, 60_000, { ok: false, seen: 'no result in a minute' }).unref()
      })
      const { ok, seen } = await Promise.race([run, late])
      await user?.catch((error) => note(`${era} form`, false, error))
      note(`${where}, ${era}, ${name}`, ok, seen)
    }
    for (const era of ERAS) {
      for (const name of NAMES) await attempt('page', name, urls[name] ?? server.href, era)
    }
    for (const era of ERAS) {
      for (const name of LOCAL) await attempt('worker', name, server.href, era)
    }
    await browser.evaluate('startServer()')
    for (const where of ['page to service worker', 'worker to service worker']) {
      for (const era of ERAS) {
        for (const name of LOCAL) await attempt(where, name, `${origin}/mcp`, era)
      }
    }
    if (process.env.SCREENSHOT) writeFileSync(process.env.SCREENSHOT, await browser.screenshot())
    const panics = browser.console.filter((line) => /panicked|unreachable/.test(line))
    note('page, console', panics.length === 0, panics.length === 0 ? 'no panic' : panics.join('\n'))
  } finally {
    await browser.close()
  }
}

// Runs the client in Node.js, whose `fetch` returns redirects.
async function inNode(server, origin) {
  Object.assign(globalThis, { counter: () => 0, ask: () => '', arrived: () => {} })
  const page = await import(pathToFileURL(join(folder, 'page.js')))
  await page.default({ module_or_path: readFileSync(join(folder, 'page_bg.wasm')) })
  for (const era of ERAS) {
    for (const [name, url] of [['list', server.href], ['progress', server.href], ['list', `${origin}/moved/mcp`]]) {
      const where = url === server.href ? name : `${name} behind a redirect`
      await page.scenario(name, url, era).then(
        (seen) => note(`Node.js, ${era}, ${where}`, true, seen),
        (error) => note(`Node.js, ${era}, ${where}`, false, error),
      )
    }
  }
}

const { child, address } = await startServer()
const site = await startSite(address)
try {
  const origin = `http://127.0.0.1:${site.address().port}`
  await inBrowser(address, origin)
  await inNode(address, origin)
  await inWorker(folder, note)
} finally {
  child.kill()
  site.closeAllConnections()
  site.close()
}
const failed = results.filter((ok) => !ok).length
console.log(`\n${results.length - failed} passed, ${failed} failed`)
process.exit(failed === 0 ? 0 : 1)
