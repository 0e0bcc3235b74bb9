// What differs between the SDKs: the TypeScript SDK 2.x.
import { Client, SSEClientTransport, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { MODERN } from './peer.mjs';

const MODES = { legacy: 'legacy', auto: 'auto', modern: { pin: MODERN } };

export const sdk = {
  client: (info, options, mode) => new Client(info, { ...options, versionNegotiation: { mode: MODES[mode] } }),
  stdio: (options) => new StdioClientTransport(options),
  http: (url) => new StreamableHTTPClientTransport(url),
  sse: (url) => new SSEClientTransport(url),
  onRequest: (client, method, answer) =>
    client.setRequestHandler(method, (request, extra) => answer(request.params, extra)),
  onNotification: (client, method, hear) =>
    client.setNotificationHandler(method, (notification) => hear(notification.params)),
  /** What the two ends have agreed on. The first generation knows one era only. */
  agreed: (client) => ({ era: client.getProtocolEra(), version: client.getNegotiatedProtocolVersion() }),
  callTool: (client, params, options) => client.callTool(params, options),
  request: (client, method, params, options) => client.request({ method, params }, options),
};
