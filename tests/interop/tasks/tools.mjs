// Tools: their list, their content, their failures.
import assert from 'node:assert/strict';
import { failure, isPng, isWav, task, text } from './task.mjs';

const SCHEMA_2020_12 = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  type: 'object',
  $defs: {
    address: {
      $anchor: 'addressDef',
      type: 'object',
      properties: { street: { type: 'string' }, city: { type: 'string' } },
    },
  },
  properties: {
    name: { type: 'string' },
    address: { $ref: '#/$defs/address' },
    contactMethod: { type: 'string', enum: ['phone', 'email'] },
    phone: { type: 'string' },
    email: { type: 'string' },
  },
  allOf: [{ anyOf: [{ required: ['phone'] }, { required: ['email'] }] }],
  if: { properties: { contactMethod: { const: 'phone' } }, required: ['contactMethod'] },
  then: { required: ['phone'] },
  else: { required: ['email'] },
  additionalProperties: false,
};

const TOOLS = [
  'greet',
  'json_schema_2020_12_tool',
  'test_embedded_resource',
  'test_error_handling',
  'test_image_content',
  'test_multiple_content_types',
  'test_ping_client',
  'test_roots',
  'test_sampling',
  'test_simple_text',
  'test_slow',
  'test_structured',
  'test_tool_with_logging',
  'test_tool_with_progress',
  'test_touch_watched',
  'test_trigger_prompt_change',
  'test_trigger_resource_change',
  'test_trigger_tool_change',
];

// req: TOOL-002 TOOL-003 TOOL-004 TOOL-006 SCHEMA-007
task('tools are listed with all they have', async (peer, { version }) => {
  const tools = await peer.all('tools/list', 'tools');
  const named = Object.fromEntries(tools.map((tool) => [tool.name, tool]));
  assert.equal(Object.keys(named).length, tools.length, 'a name is there twice');
  for (const name of TOOLS) assert(named[name], `no tool ${name}`);
  for (const tool of tools) {
    assert.match(tool.name, /^[A-Za-z0-9_.-]{1,128}$/);
    assert(tool.description?.length > 0, `${tool.name} has no description`);
    assert.equal(tool.inputSchema.type, 'object', tool.name);
  }
  assert.equal(named.json_schema_2020_12_tool.description, 'Tool with JSON Schema 2020-12 features');
  assert.deepEqual(named.json_schema_2020_12_tool.inputSchema, SCHEMA_2020_12);
  assert.deepEqual([...named.greet.inputSchema.required], ['name']);
  assert.equal(named.greet.inputSchema.properties.name.type, 'string');
  assert.equal(named.test_structured.outputSchema?.type, version < '2025-06-18' ? undefined : 'object');
});

// req: CONT-001 TOOL-015
task('a tool answers with text, with and without arguments', async (peer) => {
  const expected = 'This is a simple text response for testing.';
  assert.equal(text(await peer.call('test_simple_text')), expected);
  assert.equal(text(await peer.call('test_simple_text', {})), expected);
});

// req: STDIO-004 STDIO-005 BASE-027
task('arguments arrive whole', async (peer) => {
  const names = ['Ada', '', 'Zoë \u{1F9E1} \u0000 "\\\n\r\t\u2028\u2029', '€'.repeat(100_000)];
  for (const name of names) assert.equal(text(await peer.call('greet', { name })), `Hello, ${name}!`);
});

// req: CONT-002 CONT-011
task('a tool answers with an image', async (peer) => {
  const { content } = await peer.call('test_image_content');
  assert.equal(content.length, 1);
  assert.equal(content[0].type, 'image');
  assert.equal(content[0].mimeType, 'image/png');
  isPng(content[0].data);
});

// req: CONT-003 CONT-011
task(
  'a tool answers with audio',
  async (peer) => {
    const { content } = await peer.call('test_audio_content');
    assert.equal(content.length, 1);
    assert.equal(content[0].type, 'audio');
    assert.equal(content[0].mimeType, 'audio/wav');
    isWav(content[0].data);
  },
  { since: '2025-03-26' },
);

// req: CONT-005
task('a tool answers with a resource', async (peer) => {
  const { content } = await peer.call('test_embedded_resource');
  const resource = {
    uri: 'test://embedded-resource',
    mimeType: 'text/plain',
    text: 'This is an embedded resource content.',
  };
  assert.deepEqual(content, [{ type: 'resource', resource }]);
});

task('a tool answers with several things at once', async (peer) => {
  const { content } = await peer.call('test_multiple_content_types');
  assert.deepEqual(content.map((block) => block.type), ['text', 'image', 'resource']);
  assert.equal(content[0].text, 'Multiple content types test:');
  assert.equal(content[1].mimeType, 'image/png');
  isPng(content[1].data);
  assert.deepEqual(content[2].resource, {
    uri: 'test://mixed-content-resource',
    mimeType: 'application/json',
    text: '{"test":"data","value":123}',
  });
});

task('a tool that fails says so in its result', async (peer) => {
  assert.equal(failure(await peer.call('test_error_handling')), 'This tool intentionally returns an error for testing');
});

// req: TOOL-031 TOOL-033
task(
  'a tool answers with structured content',
  async (peer) => {
    // The SDK checks what comes against the output schema once it has seen the list.
    await peer.client.listTools();
    for (const [a, b, sum] of [[2, 3, 5], [-1.5, 0.25, -1.25], [0, 0, 0]]) {
      const result = await peer.call('test_structured', { a, b });
      assert.deepEqual(result.structuredContent, { sum });
      assert.deepEqual(JSON.parse(text(result)), { sum });
    }
  },
  { since: '2025-06-18' },
);

task('an unknown tool is refused', async (peer) => {
  const { code } = await peer.refusal(() => peer.call('no_such_tool', {}));
  assert.equal(code, -32602);
});

// req: TOOL-037
task(
  'wrong arguments fail as the result of the tool',
  async (peer) => {
    for (const wrong of [{ a: 'two', b: 3 }, { a: 2 }, {}]) {
      assert(failure(await peer.call('test_structured', wrong)).length > 0);
    }
    assert(failure(await peer.call('greet')).length > 0);
  },
  { since: '2025-11-25' },
);

// req: TOOL-037 BASE-025
task(
  'wrong arguments are refused',
  async (peer) => {
    for (const wrong of [{ a: 'two', b: 3 }, { a: 2 }, {}]) {
      const { code } = await peer.refusal(() => peer.call('test_structured', wrong));
      assert.equal(code, -32602);
    }
  },
  { until: '2025-06-18' },
);
