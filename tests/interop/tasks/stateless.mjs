// What comes without a session (2026-07-28): discovery, what every request says of itself, and how it is refused.
import assert from 'node:assert/strict';
import { task, text, WITHOUT_SESSIONS } from './task.mjs';

const VERSION = 'io.modelcontextprotocol/protocolVersion';
const CAPABILITIES = 'io.modelcontextprotocol/clientCapabilities';
const INFO = 'io.modelcontextprotocol/clientInfo';
const SERVED = ['2026-07-28', '2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05'];

task(
  'the server says what it is, whenever it is asked',
  async (peer, { version }) => {
    const { result } = await peer.byHand('server/discover');
    assert.deepEqual(result.supportedVersions.toSorted(), SERVED.toSorted());
    assert.equal(typeof result.instructions, 'string');
    assert(!('serverInfo' in result), 'who it is belongs into _meta');
    const { extensions, ...capabilities } = result.capabilities;
    assert.deepEqual(capabilities, {
      tools: { listChanged: true },
      prompts: { listChanged: true },
      resources: { subscribe: true, listChanged: true },
      logging: {},
      completions: {},
    });
    for (const settings of Object.values(extensions ?? {})) assert.equal(typeof settings, 'object');
    // The SDK has read the same from the answer to its probe.
    const known = await peer.client.discover();
    assert.deepEqual(known.supportedVersions, result.supportedVersions);
    assert.deepEqual(peer.client.getServerCapabilities(), result.capabilities);
    const info = result._meta['io.modelcontextprotocol/serverInfo'];
    assert.deepEqual(peer.client.getServerVersion(), info);
    assert.equal(info.name, 'everything');
    assert.equal(peer.client.getInstructions(), result.instructions);
    assert(result.supportedVersions.includes(version));
  },
  WITHOUT_SESSIONS,
);

task(
  'a request is served on what it says itself, and on nothing else',
  async (peer) => {
    const { [INFO]: _, ...anonymous } = peer.envelope();
    const greet = { name: 'greet', arguments: { name: 'Ada' } };
    const trace = {
      traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
      tracestate: 'rojo=00f067aa0ba902b7',
      baggage: 'userId=alice',
      'com.example/anything': { at: 'all' },
    };
    for (const meta of [anonymous, { ...anonymous, ...trace }]) {
      assert.equal(text((await peer.bare('tools/call', { ...greet, _meta: meta })).result), 'Hello, Ada!');
    }
    // What other requests said makes up for nothing.
    const wrong = [
      { [VERSION]: undefined },
      { [VERSION]: 20260728 },
      { [CAPABILITIES]: undefined },
      { [CAPABILITIES]: [] },
      { [CAPABILITIES]: 'all' },
    ];
    for (const lacking of wrong) {
      const { error } = await peer.byHand('tools/call', { ...greet, _meta: lacking });
      assert.equal(error?.code, -32602, JSON.stringify(lacking));
    }
    for (const params of [undefined, {}, { _meta: {} }]) {
      assert.equal((await peer.bare('tools/list', params)).error?.code, -32602, JSON.stringify(params));
    }
  },
  WITHOUT_SESSIONS,
);

task(
  'a revision that is not served is refused with those that are',
  async (peer) => {
    for (const requested of ['2031-01-01', '', 'DRAFT', '2025-11-25', '2026-07-28 ']) {
      // A header loses what is blank at its end, and would say something else then.
      if (peer.carrier === 'http' && requested.trim() !== requested) continue;
      const { error } = await peer.byHand('tools/list', { _meta: { [VERSION]: requested } });
      assert.equal(error?.code, -32022, requested);
      assert.equal(error.data.requested, requested);
      const { result } = await peer.byHand('server/discover');
      for (const version of error.data.supported) assert(result.supportedVersions.includes(version), version);
      assert(error.data.supported.includes('2026-07-28'));
    }
  },
  WITHOUT_SESSIONS,
);

task(
  'what belongs to sessions is unknown',
  async (peer) => {
    const asked = {
      initialize: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'a', version: '1' } },
      ping: {},
      'logging/setLevel': { level: 'info' },
      'resources/subscribe': { uri: 'test://watched-resource' },
      'resources/unsubscribe': { uri: 'test://watched-resource' },
      'tasks/list': {},
      'tasks/result': { taskId: '1' },
      'roots/list': {},
      'sampling/createMessage': { messages: [], maxTokens: 1 },
    };
    for (const [method, params] of Object.entries(asked)) {
      assert.equal((await peer.byHand(method, params)).error?.code, -32601, method);
    }
  },
  WITHOUT_SESSIONS,
);

task(
  'params that do not fit are refused',
  async (peer) => {
    const asked = [
      ['tools/call', { name: 'no_such_tool' }],
      ['tools/call', {}],
      ['tools/call', { name: 'greet', arguments: [] }],
      ['resources/read', {}],
      ['resources/read', { uri: 'test://no-such-resource' }],
      ['prompts/get', { name: 'no_such_prompt' }],
      ['tools/list', { cursor: 'no such cursor' }],
      ['tools/list', { cursor: 7 }],
      ['completion/complete', { ref: { type: 'ref/prompt', name: 'test_prompt_with_arguments' } }],
      ['subscriptions/listen', {}],
      ['subscriptions/listen', { notifications: [] }],
    ];
    for (const [method, params] of asked) {
      const { error } = await peer.byHand(method, params);
      assert.equal(error?.code, -32602, `${method} ${JSON.stringify(params)}: ${JSON.stringify(error)}`);
    }
  },
  WITHOUT_SESSIONS,
);

task(
  'a tool that needs what the client cannot do says what',
  async (peer) => {
    const call = (capabilities) =>
      peer.byHand('tools/call', { name: 'test_missing_capability', _meta: { [CAPABILITIES]: capabilities } });
    for (const capabilities of [{}, { elicitation: {} }, { roots: {}, 'com.example/other': {} }]) {
      const { error } = await call(capabilities);
      assert.equal(error?.code, -32021, JSON.stringify(capabilities));
      assert.deepEqual(error.data, { requiredCapabilities: { sampling: {} } });
    }
    for (const capabilities of [{ sampling: {} }, { sampling: { tools: {} }, roots: {} }]) {
      assert.equal(text((await call(capabilities)).result), 'The client has a model.');
    }
  },
  WITHOUT_SESSIONS,
);

task(
  'a session opens beside, and neither knows of the other',
  async (_, { open }) => {
    const peer = await open();
    const params = { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'old', version: '1' } };
    const { result } = await peer.bare('initialize', params);
    assert.equal(result.protocolVersion, '2025-06-18');
    assert.equal(result.serverInfo.name, 'everything');
    await peer.tellByHand('notifications/initialized');
    assert.deepEqual((await peer.bare('ping')).result, {});
    assert.deepEqual((await peer.bare('logging/setLevel', { level: 'debug' })).result, {});
    // The level of the session does not hold for requests that stand alone, nor do its capabilities.
    const since = peer.notifications.length;
    await peer.call('test_tool_with_logging');
    assert.deepEqual(peer.notifications.slice(since), []);
    peer.answers['sampling/createMessage'] = () => ({
      role: 'assistant',
      content: { type: 'text', text: 'Paris.' },
      model: 'atlas',
    });
    assert.equal(text(await peer.call('test_input_required_result_sampling')), 'Paris.');
    const failed = await peer.bare('tools/call', { name: 'test_input_required_result_sampling' });
    assert.equal(failed.result.isError, true);
    assert.equal((await peer.byHand('server/discover')).error, undefined);
  },
  WITHOUT_SESSIONS,
);
