// A small server of the TypeScript SDK 2.x, with what the other servers of this folder have.
//
// usage: node server-v2.mjs [--http]
//
// Over HTTP, it prints its address in the first line. It is served as the documentation of the SDK says, with its
// defaults: revisions that have sessions are served without any.
import { createServer } from 'node:http';

import { localhostHostValidation, localhostOriginValidation, toNodeHandler } from '@modelcontextprotocol/node';
import { completable, createMcpHandler, McpServer, ResourceTemplate } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { z } from 'zod';

const startingWith = (value, all) => all.filter((one) => one.startsWith(value));
const user = (text) => ({ messages: [{ role: 'user', content: { type: 'text', text } }] });

// Called for each request over HTTP. `completable` changes the schema that it is given, so none is shared.
function small() {
  const server = new McpServer({ name: 'small', version: '1.0.0' });
  server.registerTool(
    'add',
    { description: 'Adds two numbers.', inputSchema: z.object({ a: z.number(), b: z.number() }) },
    ({ a, b }) => ({ content: [{ type: 'text', text: String(a + b) }] }),
  );
  server.registerTool(
    'echo',
    { description: 'Returns the message.', inputSchema: z.object({ message: z.string() }) },
    ({ message }) => ({ content: [{ type: 'text', text: message }] }),
  );
  server.registerResource('motto', 'small://motto', { description: 'A line.', mimeType: 'text/plain' }, ({ href }) => ({
    contents: [{ uri: href, mimeType: 'text/plain', text: 'Small is enough.' }],
  }));
  server.registerResource(
    'greeting',
    new ResourceTemplate('small://greeting/{name}', {
      list: undefined,
      complete: { name: (value) => startingWith(value, ['Ada', 'Alan', 'Grace']) },
    }),
    { description: 'A greeting.', mimeType: 'text/plain' },
    ({ href }, { name }) => ({ contents: [{ uri: href, mimeType: 'text/plain', text: `Hello, ${name}!` }] }),
  );
  server.registerPrompt('hello', { description: 'Asks for a greeting.' }, () => user('Say hello.'));
  server.registerPrompt(
    'translate',
    {
      description: 'Asks for a translation.',
      argsSchema: z.object({
        language: completable(z.string(), (value) => startingWith(value, ['French', 'Finnish', 'German'])),
      }),
    },
    (args) => user(`Say hello in ${args.language}.`),
  );
  return server;
}

if (process.argv[2] === '--http') {
  const [validHost, validOrigin] = [localhostHostValidation(), localhostOriginValidation()];
  const handle = toNodeHandler(createMcpHandler(small));
  const server = createServer((request, response) => {
    if (validHost(request, response) && validOrigin(request, response)) handle(request, response);
  });
  server.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}/mcp`));
} else {
  serveStdio(small);
}
