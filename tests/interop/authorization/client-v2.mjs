// A client of the TypeScript SDK 2.x at a protected server.
import { Client, StreamableHTTPClientTransport, UnauthorizedError } from '@modelcontextprotocol/client';

import { main } from './typescript.mjs';

await main({
  Client,
  UnauthorizedError,
  StreamableHTTPClientTransport,
  finish: (transport, parameters) => transport.finishAuth(parameters),
});
