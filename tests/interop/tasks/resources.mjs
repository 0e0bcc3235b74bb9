// Resources, templates, subscriptions.
import assert from 'node:assert/strict';
import { isPng, task } from './task.mjs';

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
    assert.equal(code, peer.isModern ? -32602 : -32002, uri);
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

  const leave = await peer.watch({ resourceSubscriptions: [uri] });
  if (!peer.isModern) await peer.client.subscribeResource({ uri });
  const since = peer.notifications.length;
  await peer.call('test_touch_watched');
  assert.equal((await peer.heard('notifications/resources/updated', since)).uri, uri);
  assert.equal(await touched(), before + 2);
  assert.equal(updates(since).length, 1);

  await leave();
  if (!peer.isModern) await peer.client.unsubscribeResource({ uri });
  const end = peer.notifications.length;
  await peer.call('test_touch_watched');
  await peer.settle();
  assert.deepEqual(updates(end), [], 'an update came after the subscription');
});
