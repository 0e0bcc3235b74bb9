// Calls the tool of the README's server with the TypeScript SDK: node readme.mjs PROGRAM
import assert from 'node:assert/strict';
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

const client = new Client({ name: 'readme', version: '1.0.0' });
await client.connect(new StdioClientTransport({ command: process.argv[2] }));
const { tools } = await client.listTools();
assert.deepEqual(tools.map((tool) => tool.name), ['echo']);
assert.equal(tools[0].description, 'Returns the message');
assert.equal(tools[0].inputSchema.properties.message.description, 'The message to return.');
const result = await client.callTool({ name: 'echo', arguments: { message: 'from npm' } });
assert.deepEqual(result.content, [{ type: 'text', text: 'from npm' }]);
await client.close();
