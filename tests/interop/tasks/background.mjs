// Calls that run as tasks of 2025-11-25.
import assert from 'node:assert/strict';
import { task, text } from './task.mjs';

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
