// Prompts and completion.
import assert from 'node:assert/strict';
import { isPng, task } from './task.mjs';

// req: PROMPT-002 PROMPT-003 PROMPT-004 PROMPT-005
task('prompts are listed with their arguments', async (peer) => {
  const prompts = await peer.all('prompts/list', 'prompts');
  const named = Object.fromEntries(prompts.map((prompt) => [prompt.name, prompt]));
  assert.equal(Object.keys(named).length, prompts.length, 'a name is there twice');
  for (const { name, description } of prompts) assert(description, `${name} has no description`);
  const required = (name) =>
    (named[name]?.arguments ?? []).filter((argument) => argument.required).map((argument) => argument.name);
  assert(named.test_simple_prompt);
  assert(named.test_prompt_with_image);
  assert.deepEqual(required('test_prompt_with_arguments'), ['arg1', 'arg2']);
  assert.deepEqual(required('test_prompt_with_embedded_resource'), ['resourceUri']);
});

// req: PROMPT-008 CONT-005 CONT-006
task('prompts are filled in', async (peer) => {
  const said = (value) => ({ role: 'user', content: { type: 'text', text: value } });
  const get = async (name, args) => (await peer.client.getPrompt({ name, arguments: args })).messages;
  assert.deepEqual(await get('test_simple_prompt'), [said('This is a simple prompt for testing.')]);
  assert.deepEqual(await get('test_prompt_with_arguments', { arg1: 'hello', arg2: "w'orld" }), [
    said("Prompt with arguments: arg1='hello', arg2='w'orld'"),
  ]);
  const resource = { uri: 'test://any', mimeType: 'text/plain', text: 'Embedded resource content for testing.' };
  assert.deepEqual(await get('test_prompt_with_embedded_resource', { resourceUri: 'test://any' }), [
    { role: 'user', content: { type: 'resource', resource } },
    said('Please process the embedded resource above.'),
  ]);
  const [image, request, ...rest] = await get('test_prompt_with_image');
  assert.equal(image.role, 'user');
  assert.equal(image.content.type, 'image');
  assert.equal(image.content.mimeType, 'image/png');
  isPng(image.content.data);
  assert.deepEqual([request, ...rest], [said('Please analyze the image above.')]);
});

task('unknown prompts and missing arguments are refused', async (peer) => {
  const get = (name, args) => peer.refusal(() => peer.client.getPrompt({ name, arguments: args }));
  assert.equal((await get('no_such_prompt', {})).code, -32602);
  assert.equal((await get('test_prompt_with_arguments', { arg1: 'hello' })).code, -32602);
});

const PROMPT = { type: 'ref/prompt', name: 'test_prompt_with_arguments' };
const TEMPLATE = { type: 'ref/resource', uri: 'test://template/{id}/data' };

// req: COMPL-005 COMPL-008
task('arguments are completed', async (peer) => {
  const complete = async (ref, name, value) =>
    (await peer.client.complete({ ref, argument: { name, value } })).completion.values;
  assert.deepEqual(await complete(PROMPT, 'arg1', ''), ['paris', 'park', 'party']);
  assert.deepEqual(await complete(PROMPT, 'arg1', 'part'), ['party']);
  assert.deepEqual(await complete(PROMPT, 'arg1', 'zzz'), []);
  assert.deepEqual(await complete(TEMPLATE, 'id', '12'), ['123', '124']);
});

task(
  'completion looks at the other arguments',
  async (peer) => {
    const argument = { name: 'arg2', value: '' };
    const { completion } = await peer.client.complete({ ref: PROMPT, argument, context: { arguments: { arg1: 'park' } } });
    assert.deepEqual(completion.values, ['park-one', 'park-two']);
    assert.deepEqual((await peer.client.complete({ ref: PROMPT, argument })).completion.values, []);
  },
  { since: '2025-06-18' },
);

// req: COMPL-015
task('completion of nothing is refused', async (peer) => {
  const ref = { type: 'ref/prompt', name: 'no_such_prompt' };
  const { code } = await peer.refusal(() => peer.client.complete({ ref, argument: { name: 'a', value: '' } }));
  assert.equal(code, -32602);
});
