// The smallest echo server of the TypeScript SDK, over standard input and output.
import { McpServer } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { z } from 'zod';

serveStdio(() => {
  const server = new McpServer({ name: 'echo', version: '1.0.0' });
  const about = { description: 'Returns the message', inputSchema: z.object({ message: z.string() }) };
  server.registerTool('echo', about, async ({ message }) => ({ content: [{ type: 'text', text: message }] }));
  return server;
});
