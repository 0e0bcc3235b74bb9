// The server in a service worker: it responds to the requests of its pages for `/mcp`.

import init, { respond } from './worker.js'

let ready

self.addEventListener('install', () => self.skipWaiting())
self.addEventListener('activate', (event) => event.waitUntil(self.clients.claim()))
self.addEventListener('fetch', (event) => {
  if (new URL(event.request.url).pathname !== '/mcp') return
  ready ??= init()
  event.respondWith(ready.then(() => respond(event.request)))
})
