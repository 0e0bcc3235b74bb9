// Runs a program of WASI in Node.js, with the standard streams of this process.
//
//   node host.mjs PROGRAM.wasm ARGS...

import { readFileSync } from 'node:fs'
import { WASI } from 'node:wasi'

const [program, ...args] = process.argv.slice(2)
const wasi = new WASI({ version: 'preview1', args: [program, ...args], env: {}, returnOnExit: true })
const module = await WebAssembly.compile(readFileSync(program))
const instance = await WebAssembly.instantiate(module, wasi.getImportObject())
process.exitCode = wasi.start(instance)
