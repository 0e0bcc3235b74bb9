// A client of the TypeScript SDK 1.x at a protected server.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { UnauthorizedError } from '@modelcontextprotocol/sdk/client/auth.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

import { main } from './typescript.mjs';

await main({
  Client,
  UnauthorizedError,
  StreamableHTTPClientTransport,
  finish: (transport, parameters) => transport.finishAuth(parameters.get('code')),
});
