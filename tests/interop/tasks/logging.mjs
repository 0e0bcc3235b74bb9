// Log messages.
import assert from 'node:assert/strict';
import { IN_SESSIONS, task, WITHOUT_SESSIONS } from './task.mjs';

const LEVEL = 'io.modelcontextprotocol/logLevel';

// req: LOG-006
task(
  'log messages come from the level that was set',
  async (peer) => {
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
  },
  IN_SESSIONS,
);

task(
  'log messages come from the level that a request names',
  async (peer) => {
    const call = (meta) => peer.byHand('tools/call', { name: 'test_tool_with_logging', _meta: meta });
    const logged = async (level) => {
      const since = peer.wire.log.length;
      const [{ result }] = await Promise.all([call({ [LEVEL]: level }), call({})]);
      assert.equal(result.isError ?? false, false);
      // They are for requests of which the SDK knows nothing, so the SDK need not show them.
      const came = peer.wire.log.slice(since).map(({ message }) => message);
      return came.filter(({ method }) => method === 'notifications/message');
    };
    for (const level of [undefined, 'notice', 'emergency']) assert.deepEqual(await logged(level), [], level);
    for (const level of ['info', 'debug']) {
      const messages = await logged(level);
      assert.deepEqual(messages.map(({ params }) => params.level), ['info', 'info', 'info']);
      const expected = ['Tool execution started', 'Tool processing data', 'Tool execution completed'];
      assert.deepEqual(messages.map(({ params }) => params.data), expected);
    }
    for (const level of ['loud', 3]) assert.equal((await call({ [LEVEL]: level })).error?.code, -32602, level);
  },
  WITHOUT_SESSIONS,
);
