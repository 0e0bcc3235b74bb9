// Who the server is, and the manners of both sides.
import assert from 'node:assert/strict';
import { IN_SESSIONS, task, text } from './task.mjs';

task('both sides know the era', (peer, { version }) => {
  const era = peer.isModern ? 'modern' : 'legacy';
  assert.deepEqual(peer.agreed, { era, version });
  // The SDK asks a server that lives for this question only. The one under test knows no more than what a request says.
  assert.equal(peer.sent('initialize').length, peer.isModern ? 0 : 1);
});

// req: LIFE-003 LIFE-004 LIFE-012 LIFE-030 LIFE-023 TOOL-001 PROMPT-001 RES-001 LOG-001 COMPL-006
task(
  'the server says who it is',
  (peer, { version }) => {
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
  },
  IN_SESSIONS,
);

// req: PING-003 BASE-017
task(
  'the client pings the server',
  async (peer) => {
    const from = peer.wire.log.length;
    await peer.client.ping();
    const [ping] = peer.sent('ping', from);
    assert.deepEqual(peer.reply(ping.id).result, {});
  },
  IN_SESSIONS,
);

// req: PING-001
task(
  'the server pings the client',
  async (peer) => {
    const from = peer.wire.log.length;
    assert.equal(text(await peer.call('test_ping_client')), 'pong');
    const log = peer.wire.log.slice(from);
    const ping = log.find((entry) => entry.from === 'server' && entry.message.method === 'ping');
    assert(ping, 'no ping came');
    assert.deepEqual(Object.keys(ping.message.params ?? {}).filter((name) => name !== '_meta'), []);
    const pong = log.find((entry) => entry.from === 'client' && !('method' in entry.message));
    assert.deepEqual(pong.message, { jsonrpc: '2.0', id: ping.message.id, result: {} });
  },
  IN_SESSIONS,
);

// req: BASE-008
task('ids come back as they were', async (peer) => {
  for (const id of ['a', '', '7', 'ü \u{1F600} "\\\n', 'x'.repeat(200), -1, 2 ** 53 - 1]) {
    const { result, ...rest } = await peer.byHand(peer.smallest, undefined, id);
    assert.deepEqual(rest, { jsonrpc: '2.0', id });
    assert.equal(typeof result, 'object');
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
  await peer.wire.sendByHand({ jsonrpc: '2.0', method: 'notifications/no_such_thing', params: { a: 1 } });
  await peer.wire.sendByHand({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 'unknown' } });
  await peer.wire.sendByHand({ jsonrpc: '2.0', method: 'notifications/progress', params: { progressToken: 'x', progress: 1 } });
  const stray = peer.wire.writeByHand({ jsonrpc: '2.0', id: 'never asked', result: {} });
  // HTTP has a word for what cannot be accepted, which the SDK passes on.
  if (peer.carrier === 'stdio') {
    await stray;
  } else {
    await assert.rejects(stray, /-32600/);
    assert.match(String(peer.errors.pop()), /-32600/);
  }
  await peer.settle();
  const came = peer.wire.log.slice(from).filter((entry) => entry.from === 'server');
  assert.equal(came.length, 1, JSON.stringify(came));
});
