// What the server asks the client: model, user, roots.
import assert from 'node:assert/strict';
import { failure, IN_SESSIONS, sleep, task, text } from './task.mjs';

// req: SAMP-004 SAMP-017
task('the server samples', async (peer) => {
  let asked;
  peer.answers['sampling/createMessage'] = (params) => {
    asked = params;
    return { role: 'assistant', content: { type: 'text', text: 'Forty-two.' }, model: 'deep-thought', stopReason: 'endTurn' };
  };
  assert.equal(text(await peer.call('test_sampling', { prompt: 'What is it?' })), 'LLM response: Forty-two.');
  assert.deepEqual(asked.messages, [{ role: 'user', content: { type: 'text', text: 'What is it?' } }]);
  assert.equal(asked.maxTokens, 100);
});

task(
  'a refused question ends the tool and not the session',
  async (peer) => {
    peer.answers['sampling/createMessage'] = () => {
      throw Object.assign(new Error('the user said no'), { code: -1 });
    };
    assert.match(failure(await peer.call('test_sampling', { prompt: 'May I?' })), /the user said no/);
    await peer.settle();
  },
  IN_SESSIONS,
);

// req: SAMP-028 SAMP-029 SAMP-030
task(
  'the server samples with tools',
  async (peer) => {
    const rounds = [];
    peer.answers['sampling/createMessage'] = (params) => {
      rounds.push(params);
      const answer = { role: 'assistant', model: 'deep-thought' };
      if (rounds.length > 1) return { ...answer, content: { type: 'text', text: 'It rains.' }, stopReason: 'endTurn' };
      const content = [{ type: 'tool_use', id: 'use-1', name: 'lookup', input: { query: 'weather' } }];
      return { ...answer, content, stopReason: 'toolUse' };
    };
    const result = await peer.call('test_sampling_tools', { prompt: 'How is the weather?' });
    assert.equal(text(result), 'LLM response: It rains.');
    assert.equal(rounds.length, 2);
    const [first, second] = rounds;
    assert.deepEqual(first.tools.map(({ name }) => name), ['lookup']);
    assert.deepEqual(first.tools, second.tools);
    const blocks = second.messages.map(({ role, content }) => [role, [content].flat().map(({ type }) => type)]);
    assert.deepEqual(blocks, [['user', ['text']], ['assistant', ['tool_use']], ['user', ['tool_result']]]);
    const [found] = [second.messages[2].content].flat();
    assert.equal(found.toolUseId, 'use-1');
    assert.deepEqual(found.content, [{ type: 'text', text: 'looked up: weather' }]);
  },
  { since: '2025-11-25' },
);

/** What an elicitation tool says of the answer: the action, and the content if there is any. */
function outcome(start, result) {
  const said = text(result);
  assert(said.startsWith(`${start}: action=`), said);
  const [, action, content] = /action=(\w+)(?:, content=(.*))?$/s.exec(said);
  return { action, content: content === undefined ? undefined : JSON.parse(content) };
}

// req: ELIC-007 ELIC-014 ELIC-028
task(
  'the server asks the user',
  async (peer, { version }) => {
    const from = peer.wire.log.length;
    let asked;
    const content = { username: 'ada', email: 'ada@example.com' };
    const answers = [
      [{ action: 'accept', content }, { action: 'accept', content }],
      [{ action: 'decline' }, { action: 'decline', content: undefined }],
      [{ action: 'cancel' }, { action: 'cancel', content: undefined }],
    ];
    for (const [answer, expected] of answers) {
      peer.answers['elicitation/create'] = (params) => ((asked = params), answer);
      const result = await peer.call('test_elicitation', { message: 'Who are you?' });
      assert.deepEqual(outcome('User response', result), expected);
    }
    assert.equal(asked.message, 'Who are you?');
    const [raw] = peer.asked('elicitation/create', from);
    assert.equal(raw.mode, version < '2025-11-25' ? undefined : (raw.mode && 'form'));
    assert.deepEqual(asked.requestedSchema, {
      type: 'object',
      properties: {
        username: { type: 'string', description: "User's response" },
        email: { type: 'string', description: "User's email address" },
      },
      required: ['username', 'email'],
    });
  },
  { since: '2025-06-18' },
);

// req: ELIC-008 ELIC-018
task(
  'forms have defaults of every kind',
  async (peer) => {
    let properties;
    peer.answers['elicitation/create'] = ({ requestedSchema }) => {
      properties = requestedSchema.properties;
      const content = Object.fromEntries(Object.entries(properties).map(([name, field]) => [name, field.default]));
      return { action: 'accept', content };
    };
    const result = await peer.call('test_elicitation_sep1034_defaults');
    const content = { name: 'John Doe', age: 30, score: 95.5, status: 'active', verified: true };
    assert.deepEqual(outcome('Elicitation completed', result), { action: 'accept', content });
    const types = Object.fromEntries(Object.entries(properties).map(([name, { type }]) => [name, type]));
    assert.deepEqual(types, { name: 'string', age: 'integer', score: 'number', status: 'string', verified: 'boolean' });
    assert.deepEqual(properties.status.enum, ['active', 'inactive', 'pending']);
  },
  { since: '2025-11-25' },
);

// req: ELIC-018
task(
  'forms have choices of every kind',
  async (peer) => {
    let properties;
    const content = {
      untitledSingle: 'option2',
      titledSingle: 'value1',
      legacyEnum: 'opt3',
      untitledMulti: ['option1', 'option3'],
      titledMulti: [],
    };
    peer.answers['elicitation/create'] = ({ requestedSchema }) => {
      properties = requestedSchema.properties;
      return { action: 'accept', content };
    };
    const result = await peer.call('test_elicitation_sep1330_enums');
    assert.deepEqual(outcome('Elicitation completed', result), { action: 'accept', content });
    assert.deepEqual(Object.keys(properties).sort(), Object.keys(content).sort());
    assert.deepEqual(properties.untitledSingle.enum, ['option1', 'option2', 'option3']);
    assert.deepEqual(properties.titledSingle.oneOf[0], { const: 'value1', title: 'First Option' });
    assert.deepEqual(properties.legacyEnum.enum, ['opt1', 'opt2', 'opt3']);
    assert.equal(properties.legacyEnum.enumNames[0], 'Option One');
    assert.deepEqual(properties.untitledMulti.items.enum, ['option1', 'option2', 'option3']);
    assert.deepEqual(properties.titledMulti.items.anyOf[0], { const: 'value1', title: 'First Choice' });
  },
  { since: '2025-11-25' },
);

// req: ELIC-010 ELIC-029 ELIC-035
task(
  'the server sends the user to a page',
  async (peer) => {
    let asked;
    peer.answers['elicitation/create'] = (params) => ((asked = params), { action: 'accept' });
    const since = peer.notifications.length;
    assert.equal(text(await peer.call('test_url_elicitation')), 'Url elicitation: action=accept');
    assert.equal(asked.mode, 'url');
    assert.equal(asked.url, 'https://example.com/sign-in');
    assert.equal(asked.message, 'Please sign in');
    if (peer.isModern) return;
    const { elicitationId } = await peer.heard('notifications/elicitation/complete', since);
    assert.equal(elicitationId, asked.elicitationId);
  },
  { since: '2025-11-25' },
);

// req: ELIC-002
task(
  'a form is not sent to a revision without forms',
  async (peer) => {
    peer.answers['elicitation/create'] = () => assert.fail('a form came');
    assert(failure(await peer.call('test_elicitation', { message: 'Hello?' })).length > 0);
  },
  { until: '2025-03-26' },
);

task('the server asks for roots', async (peer) => {
  const first = [{ uri: 'file:///home/ada', name: 'home' }, { uri: 'file:///tmp' }];
  const second = [{ uri: 'file:///srv/a%20b' }];
  for (const roots of [first, second, []]) {
    peer.answers['roots/list'] = () => ({ roots });
    if (!peer.isModern) await peer.client.sendRootsListChanged();
    assert.deepEqual(JSON.parse(text(await peer.call('test_roots'))), { roots });
  }
});

task('questions and calls in flight do not mix', async (peer) => {
  peer.answers['sampling/createMessage'] = async ({ messages }) => {
    const question = messages[0].content.text;
    await sleep(question.endsWith('0') ? 50 : 1);
    return { role: 'assistant', content: { type: 'text', text: `re: ${question}` }, model: 'echo' };
  };
  const prompts = Array.from({ length: 20 }, (_, i) => `question ${i}`);
  const answers = await Promise.all(prompts.map((prompt) => peer.call('test_sampling', { prompt })));
  assert.deepEqual(answers.map(text), prompts.map((prompt) => `LLM response: re: ${prompt}`));
});
