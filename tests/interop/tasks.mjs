// What a client does with the server `everything`, once for every SDK. The fixtures are listed in README.md.
import assert from 'node:assert/strict';

/** `{ name, body, when }`; `when` says since and until which revision a task makes sense. */
export const tasks = [];

function task(name, body, when = {}) {
  tasks.push({ name, body, when });
}

const PNG = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);

/** The text of a result that consists of one text and is no error. */
function text(result) {
  assert(!result.isError, `the tool failed: ${JSON.stringify(result.content)}`);
  assert.equal(result.content.length, 1, JSON.stringify(result.content));
  assert.equal(result.content[0].type, 'text');
  return result.content[0].text;
}

/** The text of a result with `isError`. */
function failure(result) {
  assert.equal(result.isError, true, `the tool succeeded: ${JSON.stringify(result.content)}`);
  return result.content.map((block) => block.text).join('\n');
}

function isPng(data) {
  const bytes = Buffer.from(data, 'base64');
  assert.equal(bytes.toString('base64'), data, 'not canonical base64');
  assert(bytes.subarray(0, 8).equals(PNG), 'no PNG');
}

function isWav(data) {
  const bytes = Buffer.from(data, 'base64');
  assert.equal(bytes.subarray(0, 4).toString(), 'RIFF');
  assert.equal(bytes.subarray(8, 12).toString(), 'WAVE');
}

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// ---- the session

// req: LIFE-003 LIFE-004 LIFE-012 LIFE-030 LIFE-023 TOOL-001 PROMPT-001 RES-001 LOG-001 COMPL-006
task('the server says who it is', (peer, { version }) => {
  const { protocolVersion, serverInfo, capabilities, instructions } = peer.initialized;
  assert.equal(protocolVersion, version);
  assert.deepEqual(peer.client.getServerVersion(), serverInfo);
  assert(serverInfo.name.length > 0 && serverInfo.version.length > 0);
  assert.equal(typeof instructions, 'string');
  assert.deepEqual(capabilities.tools, { listChanged: true });
  assert.deepEqual(capabilities.prompts, { listChanged: true });
  assert.deepEqual(capabilities.resources, { subscribe: true, listChanged: true });
  assert.deepEqual(capabilities.logging, {});
  assert.deepEqual(capabilities.completions, version < '2025-03-26' ? undefined : {});
});

// req: PING-003 BASE-017
task('the client pings the server', async (peer) => {
  const from = peer.wire.log.length;
  await peer.client.ping();
  const [ping] = peer.sent('ping', from);
  assert.deepEqual(peer.reply(ping.id).result, {});
});

// req: PING-001
task('the server pings the client', async (peer) => {
  const from = peer.wire.log.length;
  assert.equal(text(await peer.call('test_ping_client')), 'pong');
  const log = peer.wire.log.slice(from);
  const ping = log.find((entry) => entry.from === 'server' && entry.message.method === 'ping');
  assert(ping, 'no ping came');
  assert.deepEqual(Object.keys(ping.message.params ?? {}).filter((name) => name !== '_meta'), []);
  const pong = log.find((entry) => entry.from === 'client' && !('method' in entry.message));
  assert.deepEqual(pong.message, { jsonrpc: '2.0', id: ping.message.id, result: {} });
});

// req: BASE-008
task('ids come back as they were', async (peer) => {
  for (const id of ['a', '', '7', 'ü \u{1F600} "\\\n', 'x'.repeat(200), -1, 2 ** 53 - 1]) {
    assert.deepEqual(await peer.byHand('ping', undefined, id), { jsonrpc: '2.0', id, result: {} });
  }
});

// req: BASE-022 BASE-011
task('an unknown method is refused', async (peer) => {
  for (const method of ['no/such/method', 'Ping', 'rpc.discover', '']) {
    const { error } = await peer.byHand(method, {});
    assert.equal(error?.code, -32601, `${method}: ${JSON.stringify(error)}`);
  }
});

// req: BASE-020
task('unknown notifications and stray messages change nothing', async (peer) => {
  const from = peer.wire.log.length;
  await peer.wire.send({ jsonrpc: '2.0', method: 'notifications/no_such_thing', params: { a: 1 } });
  await peer.wire.send({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 'nobody' } });
  await peer.wire.send({ jsonrpc: '2.0', method: 'notifications/progress', params: { progressToken: 'x', progress: 1 } });
  await peer.wire.inner.send({ jsonrpc: '2.0', id: 'never asked', result: {} });
  await peer.settle();
  const came = peer.wire.log.slice(from).filter((entry) => entry.from === 'server');
  assert.equal(came.length, 1, JSON.stringify(came));
});

// ---- tools

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

// ---- progress, cancellation, timeouts, concurrency

// req: PROG-004 PROG-007 PROG-011
task('progress arrives in order and before the result', async (peer) => {
  const seen = [];
  await peer.call('test_tool_with_progress', {}, { onprogress: (progress) => seen.push(progress) });
  const values = seen.map(({ progress, total }) => ({ progress, total }));
  assert.deepEqual(values, [0, 50, 100].map((progress) => ({ progress, total: 100 })));
});

// req: PROG-009
task('no progress without a token', async (peer) => {
  const from = peer.wire.log.length;
  await peer.call('test_tool_with_progress', {});
  await peer.settle();
  const came = peer.wire.log.slice(from).filter(({ message }) => message.method === 'notifications/progress');
  assert.deepEqual(came, []);
});

task('a running call is cancelled and the next one works', async (peer) => {
  const from = peer.wire.log.length;
  for (const wait of [100, 0]) {
    const stop = new AbortController();
    const call = peer.call('test_slow', { ms: 60_000 }, { signal: stop.signal });
    const refused = assert.rejects(call);
    await sleep(wait);
    stop.abort('changed my mind');
    await refused;
  }
  const cancelled = peer.sent('notifications/cancelled', from).map(({ params }) => params.requestId);
  assert.deepEqual(cancelled, peer.sent('tools/call', from).map(({ id }) => id));
  assert.equal(text(await peer.call('test_slow', { ms: 1 })), 'slow done');
  await peer.settle();
  for (const id of cancelled) assert.equal(peer.reply(id), undefined, `${id} was answered all the same`);
});

task('a call that takes too long is given up', async (peer) => {
  const from = peer.wire.log.length;
  await assert.rejects(peer.call('test_slow', { ms: 60_000 }, { timeout: 150 }), /timed out|timeout/i);
  assert.equal(peer.sent('notifications/cancelled', from).length, 1);
  assert.equal(text(await peer.call('greet', { name: 'Eve' })), 'Hello, Eve!');
});

// req: BASE-029
task('fifty calls at once get their own answers', async (peer) => {
  const names = Array.from({ length: 50 }, (_, i) => `caller ${i}`);
  const calls = names.map((name, i) =>
    i % 10 === 0 ? peer.call('test_slow', { ms: 20 }) : peer.call('greet', { name }),
  );
  const answers = (await Promise.all(calls)).map(text);
  assert.deepEqual(answers, names.map((name, i) => (i % 10 === 0 ? 'slow done' : `Hello, ${name}!`)));
});

// req: PING-003
task('a ping does not wait for slow calls', async (peer) => {
  const stops = Array.from({ length: 20 }, () => new AbortController());
  const slow = stops.map(({ signal }) => assert.rejects(peer.call('test_slow', { ms: 60_000 }, { signal })));
  await peer.client.ping({ timeout: 2_000 });
  for (const stop of stops) stop.abort();
  await Promise.all(slow);
  assert.equal(text(await peer.call('test_slow', { ms: 1 })), 'slow done');
});

// ---- resources

// req: RES-002 RES-003 RES-011 RES-012
task('resources and templates are listed', async (peer) => {
  const resources = await peer.all('resources/list', 'resources');
  const at = Object.fromEntries(resources.map((resource) => [resource.uri, resource]));
  assert.equal(at['test://static-text']?.mimeType, 'text/plain');
  assert.equal(at['test://static-binary']?.mimeType, 'image/png');
  assert(at['test://watched-resource'], 'no watched resource');
  for (const { uri, name, description } of resources) assert(name && description, `${uri} has no name or description`);
  const templates = await peer.all('resources/templates/list', 'resourceTemplates');
  const template = templates.find(({ uriTemplate }) => uriTemplate === 'test://template/{id}/data');
  assert(template?.name, 'no template');
  assert.equal(template.mimeType, 'application/json');
});

// req: RES-008
task('a text is read', async (peer) => {
  const { contents } = await peer.client.readResource({ uri: 'test://static-text' });
  const expected = 'This is the content of the static text resource.';
  assert.deepEqual(contents, [{ uri: 'test://static-text', mimeType: 'text/plain', text: expected }]);
});

// req: RES-008 RES-010 CONT-011
task('a blob is read', async (peer) => {
  const { contents } = await peer.client.readResource({ uri: 'test://static-binary' });
  assert.equal(contents.length, 1);
  assert.equal(contents[0].uri, 'test://static-binary');
  assert.equal(contents[0].mimeType, 'image/png');
  isPng(contents[0].blob);
});

task('a resource of a template is read', async (peer) => {
  for (const id of ['123', 'a-b_c']) {
    const uri = `test://template/${id}/data`;
    const { contents } = await peer.client.readResource({ uri });
    assert.equal(contents.length, 1);
    assert.equal(contents[0].uri, uri);
    assert.equal(contents[0].mimeType, 'application/json');
    assert.deepEqual(JSON.parse(contents[0].text), { id, templateTest: true, data: `Data for ID: ${id}` });
  }
});

task('an unknown resource is refused', async (peer) => {
  for (const uri of ['test://no-such-resource', 'test://template//data', 'test://template/1/2/data']) {
    const { code } = await peer.refusal(() => peer.client.readResource({ uri }));
    assert.equal(code, -32002, uri);
  }
});

// req: RES-017
task('subscribers hear of changes until they leave', async (peer) => {
  const uri = 'test://watched-resource';
  const updates = (since) =>
    peer.notifications.slice(since).filter(({ method }) => method === 'notifications/resources/updated');
  const touched = async () => Number(/^touched (\d+) times$/.exec((await peer.client.readResource({ uri })).contents[0].text)[1]);

  const start = peer.notifications.length;
  const before = await touched();
  await peer.call('test_touch_watched');
  await peer.settle();
  assert.deepEqual(updates(start), [], 'an update came without a subscription');

  await peer.client.subscribeResource({ uri });
  const since = peer.notifications.length;
  await peer.call('test_touch_watched');
  assert.equal((await peer.heard('notifications/resources/updated', since)).uri, uri);
  assert.equal(await touched(), before + 2);
  assert.equal(updates(since).length, 1);

  await peer.client.unsubscribeResource({ uri });
  const end = peer.notifications.length;
  await peer.call('test_touch_watched');
  await peer.settle();
  assert.deepEqual(updates(end), [], 'an update came after the subscription');
});

// ---- prompts and completion

// req: PROMPT-002 PROMPT-003 PROMPT-004 PROMPT-005
task('prompts are listed with their arguments', async (peer) => {
  const prompts = await peer.all('prompts/list', 'prompts');
  const named = Object.fromEntries(prompts.map((prompt) => [prompt.name, prompt]));
  assert.equal(Object.keys(named).length, prompts.length, 'a name is there twice');
  for (const { name, description } of prompts) assert(description, `${name} has no description`);
  const required = (name) =>
    (named[name]?.arguments ?? []).filter((argument) => argument.required).map((argument) => argument.name);
  assert(named.test_simple_prompt);
  assert(named.test_prompt_with_image);
  assert.deepEqual(required('test_prompt_with_arguments'), ['arg1', 'arg2']);
  assert.deepEqual(required('test_prompt_with_embedded_resource'), ['resourceUri']);
});

// req: PROMPT-008 CONT-005 CONT-006
task('prompts are filled in', async (peer) => {
  const said = (value) => ({ role: 'user', content: { type: 'text', text: value } });
  const get = async (name, args) => (await peer.client.getPrompt({ name, arguments: args })).messages;
  assert.deepEqual(await get('test_simple_prompt'), [said('This is a simple prompt for testing.')]);
  assert.deepEqual(await get('test_prompt_with_arguments', { arg1: 'hello', arg2: "w'orld" }), [
    said("Prompt with arguments: arg1='hello', arg2='w'orld'"),
  ]);
  const resource = { uri: 'test://any', mimeType: 'text/plain', text: 'Embedded resource content for testing.' };
  assert.deepEqual(await get('test_prompt_with_embedded_resource', { resourceUri: 'test://any' }), [
    { role: 'user', content: { type: 'resource', resource } },
    said('Please process the embedded resource above.'),
  ]);
  const [image, request, ...rest] = await get('test_prompt_with_image');
  assert.equal(image.role, 'user');
  assert.equal(image.content.type, 'image');
  assert.equal(image.content.mimeType, 'image/png');
  isPng(image.content.data);
  assert.deepEqual([request, ...rest], [said('Please analyze the image above.')]);
});

task('unknown prompts and missing arguments are refused', async (peer) => {
  const get = (name, args) => peer.refusal(() => peer.client.getPrompt({ name, arguments: args }));
  assert.equal((await get('no_such_prompt', {})).code, -32602);
  assert.equal((await get('test_prompt_with_arguments', { arg1: 'hello' })).code, -32602);
});

const PROMPT = { type: 'ref/prompt', name: 'test_prompt_with_arguments' };
const TEMPLATE = { type: 'ref/resource', uri: 'test://template/{id}/data' };

// req: COMPL-005 COMPL-008
task('arguments are completed', async (peer) => {
  const complete = async (ref, name, value) =>
    (await peer.client.complete({ ref, argument: { name, value } })).completion.values;
  assert.deepEqual(await complete(PROMPT, 'arg1', ''), ['paris', 'park', 'party']);
  assert.deepEqual(await complete(PROMPT, 'arg1', 'part'), ['party']);
  assert.deepEqual(await complete(PROMPT, 'arg1', 'zzz'), []);
  assert.deepEqual(await complete(TEMPLATE, 'id', '12'), ['123', '124']);
});

task(
  'completion looks at the other arguments',
  async (peer) => {
    const argument = { name: 'arg2', value: '' };
    const { completion } = await peer.client.complete({ ref: PROMPT, argument, context: { arguments: { arg1: 'park' } } });
    assert.deepEqual(completion.values, ['park-one', 'park-two']);
    assert.deepEqual((await peer.client.complete({ ref: PROMPT, argument })).completion.values, []);
  },
  { since: '2025-06-18' },
);

// req: COMPL-015
task('completion of nothing is refused', async (peer) => {
  const ref = { type: 'ref/prompt', name: 'no_such_prompt' };
  const { code } = await peer.refusal(() => peer.client.complete({ ref, argument: { name: 'a', value: '' } }));
  assert.equal(code, -32602);
});

// ---- logging

// req: LOG-006
task('log messages come from the level that was set', async (peer) => {
  const logged = async (level) => {
    await peer.client.setLoggingLevel(level);
    const since = peer.notifications.length;
    await peer.call('test_tool_with_logging');
    await peer.settle();
    return peer.notifications.slice(since).filter(({ method }) => method === 'notifications/message');
  };
  assert.deepEqual(await logged('warning'), []);
  for (const level of ['info', 'debug']) {
    const messages = await logged(level);
    assert.deepEqual(messages.map(({ params }) => params.level), ['info', 'info', 'info']);
    const expected = ['Tool execution started', 'Tool processing data', 'Tool execution completed'];
    assert.deepEqual(messages.map(({ params }) => params.data), expected);
  }
  const { error } = await peer.byHand('logging/setLevel', { level: 'loud' });
  assert.equal(error?.code, -32602);
});

// ---- questions to the client

// req: SAMP-004 SAMP-017
task('the server samples', async (peer) => {
  let asked;
  peer.answers['sampling/createMessage'] = (params) => {
    asked = params;
    return { role: 'assistant', content: { type: 'text', text: 'Forty-two.' }, model: 'deep-thought', stopReason: 'endTurn' };
  };
  assert.equal(text(await peer.call('test_sampling', { prompt: 'What is it?' })), 'LLM response: Forty-two.');
  assert.deepEqual(asked.messages, [{ role: 'user', content: { type: 'text', text: 'What is it?' } }]);
  assert.equal(asked.maxTokens, 100);
});

task('a refused question ends the tool and not the session', async (peer) => {
  peer.answers['sampling/createMessage'] = () => {
    throw Object.assign(new Error('the user said no'), { code: -1 });
  };
  assert.match(failure(await peer.call('test_sampling', { prompt: 'May I?' })), /the user said no/);
  await peer.settle();
});

// req: SAMP-028 SAMP-029 SAMP-030
task(
  'the server samples with tools',
  async (peer) => {
    const rounds = [];
    peer.answers['sampling/createMessage'] = (params) => {
      rounds.push(params);
      const answer = { role: 'assistant', model: 'deep-thought' };
      if (rounds.length > 1) return { ...answer, content: { type: 'text', text: 'It rains.' }, stopReason: 'endTurn' };
      const content = [{ type: 'tool_use', id: 'use-1', name: 'lookup', input: { query: 'weather' } }];
      return { ...answer, content, stopReason: 'toolUse' };
    };
    const result = await peer.call('test_sampling_tools', { prompt: 'How is the weather?' });
    assert.equal(text(result), 'LLM response: It rains.');
    assert.equal(rounds.length, 2);
    const [first, second] = rounds;
    assert.deepEqual(first.tools.map(({ name }) => name), ['lookup']);
    assert.deepEqual(first.tools, second.tools);
    const blocks = second.messages.map(({ role, content }) => [role, [content].flat().map(({ type }) => type)]);
    assert.deepEqual(blocks, [['user', ['text']], ['assistant', ['tool_use']], ['user', ['tool_result']]]);
    const [found] = [second.messages[2].content].flat();
    assert.equal(found.toolUseId, 'use-1');
    assert.deepEqual(found.content, [{ type: 'text', text: 'looked up: weather' }]);
  },
  { since: '2025-11-25' },
);

/** What an elicitation tool says of the answer: the action, and the content if there is any. */
function outcome(start, result) {
  const said = text(result);
  assert(said.startsWith(`${start}: action=`), said);
  const [, action, content] = /action=(\w+)(?:, content=(.*))?$/s.exec(said);
  return { action, content: content === undefined ? undefined : JSON.parse(content) };
}

// req: ELIC-007 ELIC-014 ELIC-028
task(
  'the server asks the user',
  async (peer, { version }) => {
    const from = peer.wire.log.length;
    let asked;
    const content = { username: 'ada', email: 'ada@example.com' };
    const answers = [
      [{ action: 'accept', content }, { action: 'accept', content }],
      [{ action: 'decline' }, { action: 'decline', content: undefined }],
      [{ action: 'cancel' }, { action: 'cancel', content: undefined }],
    ];
    for (const [answer, expected] of answers) {
      peer.answers['elicitation/create'] = (params) => ((asked = params), answer);
      const result = await peer.call('test_elicitation', { message: 'Who are you?' });
      assert.deepEqual(outcome('User response', result), expected);
    }
    assert.equal(asked.message, 'Who are you?');
    const raw = peer.wire.log.slice(from).find(({ message }) => message.method === 'elicitation/create').message.params;
    assert.equal(raw.mode, version < '2025-11-25' ? undefined : (raw.mode && 'form'));
    assert.deepEqual(asked.requestedSchema, {
      type: 'object',
      properties: {
        username: { type: 'string', description: "User's response" },
        email: { type: 'string', description: "User's email address" },
      },
      required: ['username', 'email'],
    });
  },
  { since: '2025-06-18' },
);

// req: ELIC-008 ELIC-018
task(
  'forms have defaults of every kind',
  async (peer) => {
    let properties;
    peer.answers['elicitation/create'] = ({ requestedSchema }) => {
      properties = requestedSchema.properties;
      const content = Object.fromEntries(Object.entries(properties).map(([name, field]) => [name, field.default]));
      return { action: 'accept', content };
    };
    const result = await peer.call('test_elicitation_sep1034_defaults');
    const content = { name: 'John Doe', age: 30, score: 95.5, status: 'active', verified: true };
    assert.deepEqual(outcome('Elicitation completed', result), { action: 'accept', content });
    const types = Object.fromEntries(Object.entries(properties).map(([name, { type }]) => [name, type]));
    assert.deepEqual(types, { name: 'string', age: 'integer', score: 'number', status: 'string', verified: 'boolean' });
    assert.deepEqual(properties.status.enum, ['active', 'inactive', 'pending']);
  },
  { since: '2025-11-25' },
);

// req: ELIC-018
task(
  'forms have choices of every kind',
  async (peer) => {
    let properties;
    const content = {
      untitledSingle: 'option2',
      titledSingle: 'value1',
      legacyEnum: 'opt3',
      untitledMulti: ['option1', 'option3'],
      titledMulti: [],
    };
    peer.answers['elicitation/create'] = ({ requestedSchema }) => {
      properties = requestedSchema.properties;
      return { action: 'accept', content };
    };
    const result = await peer.call('test_elicitation_sep1330_enums');
    assert.deepEqual(outcome('Elicitation completed', result), { action: 'accept', content });
    assert.deepEqual(Object.keys(properties).sort(), Object.keys(content).sort());
    assert.deepEqual(properties.untitledSingle.enum, ['option1', 'option2', 'option3']);
    assert.deepEqual(properties.titledSingle.oneOf[0], { const: 'value1', title: 'First Option' });
    assert.deepEqual(properties.legacyEnum.enum, ['opt1', 'opt2', 'opt3']);
    assert.equal(properties.legacyEnum.enumNames[0], 'Option One');
    assert.deepEqual(properties.untitledMulti.items.enum, ['option1', 'option2', 'option3']);
    assert.deepEqual(properties.titledMulti.items.anyOf[0], { const: 'value1', title: 'First Choice' });
  },
  { since: '2025-11-25' },
);

// req: ELIC-010 ELIC-029 ELIC-035
task(
  'the server sends the user to a page',
  async (peer) => {
    let asked;
    peer.answers['elicitation/create'] = (params) => ((asked = params), { action: 'accept' });
    const since = peer.notifications.length;
    assert.equal(text(await peer.call('test_url_elicitation')), 'Url elicitation: action=accept');
    assert.equal(asked.mode, 'url');
    assert.equal(asked.url, 'https://example.com/sign-in');
    assert.equal(asked.message, 'Please sign in');
    const { elicitationId } = await peer.heard('notifications/elicitation/complete', since);
    assert.equal(elicitationId, asked.elicitationId);
  },
  { since: '2025-11-25' },
);

// req: ELIC-002
task(
  'a form is not sent to a revision without forms',
  async (peer) => {
    peer.answers['elicitation/create'] = () => assert.fail('a form came');
    assert(failure(await peer.call('test_elicitation', { message: 'Hello?' })).length > 0);
  },
  { until: '2025-03-26' },
);

task('the server asks for roots', async (peer) => {
  const first = [{ uri: 'file:///home/ada', name: 'home' }, { uri: 'file:///tmp' }];
  const second = [{ uri: 'file:///srv/a%20b' }];
  for (const roots of [first, second, []]) {
    peer.answers['roots/list'] = () => ({ roots });
    await peer.client.sendRootsListChanged();
    assert.deepEqual(JSON.parse(text(await peer.call('test_roots'))), { roots });
  }
});

task('questions and calls in flight do not mix', async (peer) => {
  peer.answers['sampling/createMessage'] = async ({ messages }) => {
    const question = messages[0].content.text;
    await sleep(question.endsWith('0') ? 50 : 1);
    return { role: 'assistant', content: { type: 'text', text: `re: ${question}` }, model: 'echo' };
  };
  const prompts = Array.from({ length: 20 }, (_, i) => `question ${i}`);
  const answers = await Promise.all(prompts.map((prompt) => peer.call('test_sampling', { prompt })));
  assert.deepEqual(answers.map(text), prompts.map((prompt) => `LLM response: re: ${prompt}`));
});

// ---- lists that change, lists in pages

/** Triggers a change twice: the entry appears or disappears, and then everything is as before. */
async function changes(peer, { tool, notification, names, entry }) {
  const before = await names();
  for (const round of [1, 2]) {
    const since = peer.notifications.length;
    await peer.call(tool);
    await peer.heard(notification, since);
    const now = await names();
    const there = before.includes(entry) === (round === 2);
    assert.equal(now.includes(entry), there, `${entry} in round ${round}`);
    assert.deepEqual(now.filter((name) => name !== entry), before.filter((name) => name !== entry));
  }
}

task('tools come and go', async (peer) => {
  const names = async () => (await peer.all('tools/list', 'tools')).map(({ name }) => name);
  const entry = 'test_dynamic_tool';
  const change = { tool: 'test_trigger_tool_change', notification: 'notifications/tools/list_changed', names, entry };
  await changes(peer, change);
  assert.equal((await peer.refusal(() => peer.call(entry))).code, -32602);
  await peer.call('test_trigger_tool_change');
  assert.equal(text(await peer.call(entry)), 'dynamic');
  await peer.call('test_trigger_tool_change');
});

task('prompts come and go', async (peer) => {
  const names = async () => (await peer.all('prompts/list', 'prompts')).map(({ name }) => name);
  const notification = 'notifications/prompts/list_changed';
  await changes(peer, { tool: 'test_trigger_prompt_change', notification, names, entry: 'test_dynamic_prompt' });
});

task('resources come and go', async (peer) => {
  const names = async () => (await peer.all('resources/list', 'resources')).map(({ uri }) => uri);
  const notification = 'notifications/resources/list_changed';
  await changes(peer, { tool: 'test_trigger_resource_change', notification, names, entry: 'test://dynamic-resource' });
});

// req: PAGE-001 PAGE-003
task('pages add up to the whole list', async (peer, { open }) => {
  const paged = await open(['--page-size', '3']);
  const lists = [['tools/list', 'tools'], ['prompts/list', 'prompts'], ['resources/list', 'resources']];
  for (const [method, member] of lists) {
    const whole = await peer.page(method);
    assert.equal(whole.nextCursor, undefined, `${method} comes in pages without being asked to`);
    const first = await paged.page(method);
    if (whole[member].length > 3) {
      assert.equal(first[member].length, 3);
      assert.equal(typeof first.nextCursor, 'string');
    }
    assert.deepEqual(await paged.all(method, member), whole[member]);
    const { code } = await paged.refusal(() => paged.page(method, 'no such cursor'));
    assert.equal(code, -32602, method);
  }
});

// ---- 2025-11-25 tasks

const TASKS = { since: '2025-11-25', tasks: true };

// req: TASK-010 TASK-016 TASK-018 TASK-021 TASK-032 TASK-033 TASK-035 TASK-048 TASK-049
task(
  'a call runs as a task',
  async (peer, { sdk }) => {
    await peer.client.listTools();
    const states = [];
    const params = { name: 'test_task', arguments: { ms: 50, label: 'sum' } };
    for await (const state of sdk.callToolAsTask(peer.client, params, { task: { ttl: 60_000 } })) states.push(state);
    const last = states.at(-1);
    assert.equal(last.type, 'result', JSON.stringify(last));
    assert.equal(text(last.result), 'task sum done');
    assert.equal(states[0].type, 'taskCreated');
    const { taskId, status, ttl, createdAt, lastUpdatedAt } = states[0].task;
    assert.equal(status, 'working');
    assert(ttl === null || ttl > 0);
    for (const time of [createdAt, lastUpdatedAt]) assert(!Number.isNaN(Date.parse(time)), time);
    const meta = last.result._meta?.['io.modelcontextprotocol/related-task'];
    assert.deepEqual(meta, { taskId });
    assert.equal((await sdk.tasks(peer.client).getTask(taskId)).status, 'completed');
    const listed = (await sdk.tasks(peer.client).listTasks()).tasks.map((one) => one.taskId);
    assert(listed.includes(taskId), 'the task is not listed');
    assert.equal(text(await peer.call('test_task', { ms: 1, label: 'plain' })), 'task plain done');
  },
  TASKS,
);

// req: TASK-053 TASK-054 TASK-055
task(
  'a task is cancelled',
  async (peer, { sdk }) => {
    await peer.client.listTools();
    const params = { name: 'test_task', arguments: { ms: 60_000, label: 'long' } };
    const states = sdk.callToolAsTask(peer.client, params, { task: { ttl: 60_000 } });
    const { value: created } = await states.next();
    const { taskId } = created.task;
    assert.equal((await sdk.tasks(peer.client).cancelTask(taskId)).status, 'cancelled');
    assert.equal((await sdk.tasks(peer.client).getTask(taskId)).status, 'cancelled');
    await states.return();
    const again = await peer.refusal(() => sdk.tasks(peer.client).cancelTask(taskId));
    assert.equal(again.code, -32602);
    const unknown = await peer.refusal(() => sdk.tasks(peer.client).getTask('no such task'));
    assert.equal(unknown.code, -32602);
  },
  TASKS,
);
