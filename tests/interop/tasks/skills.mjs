// Skills: folders of instructions, whose files are resources. The SDKs know nothing of them, so they are asked for by hand.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { task } from './task.mjs';

const since = '2025-11-25';
const EXTENSION = 'io.modelcontextprotocol/skills';

/** What comes of a request of the extension. */
const ask = async (peer, method, params = {}) => {
  const { result, error } = await peer.byHand(method, params);
  assert.equal(error, undefined, `${method}: ${JSON.stringify(error)}`);
  return result;
};

task('skills are listed with the digests of all of their files', async (peer) => {
  const extensions = peer.client.getServerCapabilities().extensions;
  if (extensions !== undefined) assert.deepEqual(extensions[EXTENSION], { directoryRead: true });
  const { skills } = await ask(peer, 'skills/list');
  const uris = skills.map(({ uri }) => uri);
  const root = 'skill://acme/billing/refunds';
  assert.deepEqual(uris, ['skill://greeting/SKILL.md', `${root}/SKILL.md`, `${root}/exceptions/SKILL.md`]);
  assert.equal(skills[0].frontmatter.metadata.version, '1.0');
  for (const skill of skills) {
    assert.deepEqual((await ask(peer, 'skills/get', { uri: skill.uri })).skill, skill);
    for (const { uri, digest, size } of skill.resources) {
      const [{ text, blob }] = (await peer.client.readResource({ uri })).contents;
      const bytes = text === undefined ? Buffer.from(blob, 'base64') : Buffer.from(text);
      assert.equal(bytes.length, size, uri);
      assert.equal(`sha256:${createHash('sha256').update(bytes).digest('hex')}`, digest, uri);
    }
  }
  const { error } = await peer.byHand('skills/get', { uri: 'skill://greeting/seal.png' });
  assert.equal(error?.code, -32602);
}, { since });

task('folders of skills are read one level at a time', async (peer) => {
  const read = async (uri) => {
    const { resources } = await ask(peer, 'resources/directory/read', { uri });
    return resources.map(({ uri: of, mimeType }) => [of.slice(uri.length + 1), mimeType]);
  };
  assert.deepEqual(await read('skill://greeting'), [
    ['SKILL.md', 'text/markdown'],
    ['seal.png', 'image/png'],
    ['templates', 'inode/directory'],
  ]);
  assert.deepEqual(await read('skill://greeting/templates'), [['casual.txt', 'text/plain'], ['formal.txt', 'text/plain']]);
  const { error } = await peer.byHand('resources/directory/read', { uri: 'skill://greeting/SKILL.md' });
  assert.equal(error?.code, -32602);
}, { since });
