// Lists that change, lists in pages.
import assert from 'node:assert/strict';
import { task, text } from './task.mjs';

/** Triggers a change twice: the entry appears or disappears, and then everything is as before. */
async function changes(peer, { tool, notification, filter, names, entry }) {
  const before = await names();
  const leave = await peer.watch({ [filter]: true });
  for (const round of [1, 2]) {
    const since = peer.notifications.length;
    await peer.call(tool);
    await peer.heard(notification, since);
    const now = await names();
    const there = before.includes(entry) === (round === 2);
    assert.equal(now.includes(entry), there, `${entry} in round ${round}`);
    assert.deepEqual(now.filter((name) => name !== entry), before.filter((name) => name !== entry));
  }
  await leave();
}

task('tools come and go', async (peer) => {
  const names = async () => (await peer.all('tools/list', 'tools')).map(({ name }) => name);
  const entry = 'test_dynamic_tool';
  const [tool, notification] = ['test_trigger_tool_change', 'notifications/tools/list_changed'];
  await changes(peer, { tool, notification, filter: 'toolsListChanged', names, entry });
  assert.equal((await peer.refusal(() => peer.call(entry))).code, -32602);
  await peer.call('test_trigger_tool_change');
  assert.equal(text(await peer.call(entry)), 'dynamic');
  await peer.call('test_trigger_tool_change');
});

task('prompts come and go', async (peer) => {
  const names = async () => (await peer.all('prompts/list', 'prompts')).map(({ name }) => name);
  const notification = 'notifications/prompts/list_changed';
  const [tool, filter] = ['test_trigger_prompt_change', 'promptsListChanged'];
  await changes(peer, { tool, notification, filter, names, entry: 'test_dynamic_prompt' });
});

task('resources come and go', async (peer) => {
  const names = async () => (await peer.all('resources/list', 'resources')).map(({ uri }) => uri);
  const notification = 'notifications/resources/list_changed';
  const [tool, filter] = ['test_trigger_resource_change', 'resourcesListChanged'];
  await changes(peer, { tool, notification, filter, names, entry: 'test://dynamic-resource' });
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
