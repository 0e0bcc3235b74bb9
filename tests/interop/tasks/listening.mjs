// Subscriptions without a session (2026-07-28): changes come to each listener.
import assert from 'node:assert/strict';
import { PATIENCE } from '../peer.mjs';
import { task, WITHOUT_SESSIONS } from './task.mjs';

const ID = 'io.modelcontextprotocol/subscriptionId';
const WATCHED = 'test://watched-resource';

const pause = () => new Promise((resolve) => setTimeout(resolve, 5));

/** Notifications of a subscription as they went over the wire. */
function heard(peer, id, from = 0) {
  return peer.wire.log
    .slice(from)
    .filter(({ from: side, message }) => side === 'server' && message.params?._meta?.[ID] === id)
    .map(({ message }) => message);
}

/** The id under which the SDK listens since `from`. */
function lastListen(peer, from) {
  return peer.sent('subscriptions/listen', from).at(-1).id;
}

task(
  'a subscription begins with what it will tell',
  async (peer) => {
    const cases = [
      {},
      { toolsListChanged: true },
      { toolsListChanged: true, promptsListChanged: true, resourcesListChanged: true, resourceSubscriptions: [WATCHED] },
      { resourceSubscriptions: [] },
    ];
    for (const filter of cases) {
      const from = peer.wire.log.length;
      const subscription = await peer.client.listen(filter);
      assert.deepEqual(subscription.honoredFilter, filter);
      const [first] = heard(peer, lastListen(peer, from), from);
      assert.equal(first.method, 'notifications/subscriptions/acknowledged');
      assert.deepEqual(first.params.notifications, filter);
      await subscription.close();
      assert.equal(await subscription.closed, 'local');
    }
  },
  WITHOUT_SESSIONS,
);

task(
  'every subscription hears what it asked for, under its own id',
  async (peer) => {
    const from = peer.wire.log.length;
    const open = async (filter) => {
      const subscription = await peer.client.listen(filter);
      return { subscription, id: lastListen(peer, from) };
    };
    const tools = await open({ toolsListChanged: true });
    const all = await open({ toolsListChanged: true, promptsListChanged: true });
    const updates = await open({ resourceSubscriptions: [WATCHED] });
    const change = async (expected, ...calls) => {
      const since = peer.wire.log.length;
      for (const tool of calls) await peer.call(tool);
      const told = () => [tools, all, updates].map(({ id }) => heard(peer, id, since).map(({ method }) => method));
      // Over HTTP each of them has a stream of its own, which answers may overtake.
      const deadline = Date.now() + PATIENCE;
      while (told().some((methods, index) => methods.length < expected[index].length) && Date.now() < deadline) await pause();
      await peer.settle();
      assert.deepEqual(told(), expected);
    };
    const [toolsChanged, promptsChanged, updated] = [
      'notifications/tools/list_changed',
      'notifications/prompts/list_changed',
      'notifications/resources/updated',
    ];
    await change([[toolsChanged], [toolsChanged], []], 'test_trigger_tool_change');
    await change([[], [promptsChanged], []], 'test_trigger_prompt_change');
    await change([[], [], []], 'test_trigger_resource_change');
    await change([[], [], [updated]], 'test_touch_watched');
    await all.subscription.close();
    await change([[toolsChanged], [], []], 'test_trigger_tool_change', 'test_trigger_prompt_change');
    await tools.subscription.close();
    await updates.subscription.close();
    await change([[], [], []], 'test_trigger_resource_change', 'test_touch_watched');
    for (const { id } of [tools, all, updates]) assert.equal(peer.reply(id), undefined, 'it was answered all the same');
  },
  WITHOUT_SESSIONS,
);

task(
  'an id is taken while its subscription lives',
  async (peer) => {
    const from = peer.wire.log.length;
    const ended = peer.byHand('subscriptions/listen', { notifications: { toolsListChanged: true } }, 4711);
    await peer.settle();
    assert.equal(heard(peer, 4711, from).length, 1);
    assert.equal(heard(peer, '4711', from).length, 0);
    // The refusal has the id as well, so the waiter for the end gets it. The log has no second request.
    await peer.wire.writeByHand({ jsonrpc: '2.0', id: 4711, method: 'server/discover', params: { _meta: peer.envelope() } });
    assert.equal((await ended).error?.code, -32600);
    await peer.wire.sendByHand({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 4711 } });
    await peer.settle();
  },
  // Over HTTP each request has a connection of its own.
  { ...WITHOUT_SESSIONS, over: ['stdio'] },
);

task(
  'a server that ends says so to each listener',
  async (_, { open }) => {
    const peer = await open();
    const subscription = await peer.client.listen({ toolsListChanged: true });
    const id = lastListen(peer, 0);
    await peer.close();
    assert.deepEqual(peer.reply(id)?.result?._meta?.[ID], id);
    assert.equal(peer.reply(id).result.resultType, 'complete');
    await subscription.closed;
  },
  // Over HTTP a client that leaves does not end the server.
  { ...WITHOUT_SESSIONS, over: ['stdio'] },
);
