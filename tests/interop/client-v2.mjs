// The task list on the TypeScript SDK 2.x: node client-v2.mjs [--version V] [--only NAME] -- COMMAND ARGS...
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { main } from './runner.mjs';

await main({
  client: (info, options) => new Client(info, { ...options, versionNegotiation: { mode: 'legacy' } }),
  transport: (options) => new StdioClientTransport(options),
  onRequest: (client, method, answer) =>
    client.setRequestHandler(method, (request, extra) => answer(request.params, extra)),
  onNotification: (client, method, hear) =>
    client.setNotificationHandler(method, (notification) => hear(notification.params)),
  callTool: (client, params, options) => client.callTool(params, options),
  request: (client, method, params, options) => client.request({ method, params }, options),
});
