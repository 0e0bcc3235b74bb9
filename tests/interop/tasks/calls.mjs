// Progress, cancellation, timeouts, many calls at once.
import assert from 'node:assert/strict';
import { sleep, task, text } from './task.mjs';

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
  const cancelled = peer.givenUp(from);
  assert.deepEqual(cancelled, peer.sent('tools/call', from).map(({ id }) => id));
  assert.equal(text(await peer.call('test_slow', { ms: 1 })), 'slow done');
  await peer.settle();
  for (const id of cancelled) assert.equal(peer.reply(id), undefined, `${id} was answered all the same`);
});

task('a call that takes too long is given up', async (peer) => {
  const from = peer.wire.log.length;
  await assert.rejects(peer.call('test_slow', { ms: 60_000 }, { timeout: 150 }), /timed out|timeout/i);
  assert.equal(peer.givenUp(from).length, 1);
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

task('a small request does not wait for slow calls', async (peer) => {
  const from = peer.wire.log.length;
  const stops = Array.from({ length: 20 }, () => new AbortController());
  const slow = stops.map(({ signal }) => assert.rejects(peer.call('test_slow', { ms: 60_000 }, { signal })));
  await peer.settle(2_000);
  for (const stop of stops) stop.abort();
  await Promise.all(slow);
  assert.equal(peer.givenUp(from).length, 20);
  assert.equal(text(await peer.call('test_slow', { ms: 1 })), 'slow done');
});
