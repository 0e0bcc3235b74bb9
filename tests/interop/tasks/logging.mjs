// Log messages.
import assert from 'node:assert/strict';
import { task } from './task.mjs';

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
