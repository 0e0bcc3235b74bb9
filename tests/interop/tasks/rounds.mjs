// Questions without a session (2026-07-28): they are the answer to a call, which comes again with what was asked.
import assert from 'node:assert/strict';
import { failure, task, text, WITHOUT_SESSIONS } from './task.mjs';

const CAPABILITIES = 'io.modelcontextprotocol/clientCapabilities';

const said = (value) => ({ role: 'assistant', content: { type: 'text', text: value }, model: 'atlas' });
const filled = (content) => ({ action: 'accept', content });

/** What became of each request of a call, in order: `{ id, params, result }`. */
function rounds(peer, from, method = 'tools/call') {
  return peer.sent(method, from).map(({ id, params }) => ({ id, params, result: peer.reply(id).result }));
}

/** Confirms that every request but the first is the one before with its answers, and all but the last ask. */
function checkRounds(rounds, count) {
  assert.equal(rounds.length, count);
  assert.equal(new Set(rounds.map(({ id }) => id)).size, count, 'an id came again');
  for (const [round, { params, result }] of rounds.entries()) {
    const before = rounds[round - 1]?.result;
    assert.equal(params.name, rounds[0].params.name);
    assert.equal(params.requestState, before?.requestState);
    assert.deepEqual(Object.keys(params.inputResponses ?? {}).sort(), Object.keys(before?.inputRequests ?? {}).sort());
    assert.equal(result.resultType, round < count - 1 ? 'input_required' : 'complete');
    if (result.resultType === 'complete') continue;
    assert(Object.keys(result.inputRequests).length > 0);
    assert.equal(typeof result.requestState, 'string');
    assert(!('content' in result) && !('messages' in result), 'a question and an answer at once');
    for (const question of Object.values(result.inputRequests)) {
      assert.deepEqual(Object.keys(question).filter((name) => name !== 'params'), ['method']);
    }
  }
}

const ONE_ROUND = [
  {
    tool: 'test_input_required_result_elicitation',
    asks: { user_name: 'elicitation/create' },
    answer: ['elicitation/create', filled({ name: 'Ada' })],
    says: 'Hello, Ada!',
  },
  {
    tool: 'test_streaming_elicitation',
    asks: { user_name: 'elicitation/create' },
    answer: ['elicitation/create', filled({ name: 'Zoë' })],
    says: 'Hello, Zoë!',
  },
  {
    tool: 'test_input_required_result_sampling',
    asks: { capital_question: 'sampling/createMessage' },
    answer: ['sampling/createMessage', said('Paris.')],
    says: 'Paris.',
  },
  {
    tool: 'test_input_required_result_list_roots',
    asks: { client_roots: 'roots/list' },
    answer: ['roots/list', { roots: [{ uri: 'file:///home/ada', name: 'home' }, { uri: 'file:///tmp' }] }],
    says: 'Roots: home, file:///tmp',
  },
  {
    tool: 'test_input_required_result_request_state',
    asks: { confirm: 'elicitation/create' },
    answer: ['elicitation/create', filled({ ok: true })],
    says: 'state-ok, ok: true',
  },
];

task(
  'a question is the answer, and the call comes again',
  async (peer) => {
    for (const { tool, asks, answer, says } of ONE_ROUND) {
      const from = peer.wire.log.length;
      peer.answers = { [answer[0]]: () => answer[1] };
      assert.equal(text(await peer.call(tool)), says);
      const [first, second] = rounds(peer, from);
      checkRounds(rounds(peer, from), 2);
      const asked = Object.entries(first.result.inputRequests).map(([name, { method }]) => [name, method]);
      assert.deepEqual(Object.fromEntries(asked), asks);
      assert.deepEqual(Object.values(second.params.inputResponses), [answer[1]]);
    }
  },
  WITHOUT_SESSIONS,
);

task(
  'model, user and client are asked at once',
  async (peer) => {
    const from = peer.wire.log.length;
    peer.answers = {
      'elicitation/create': () => filled({ name: 'Ada' }),
      'sampling/createMessage': () => said('Good morning!'),
      'roots/list': () => ({ roots: [{ uri: 'file:///tmp' }] }),
    };
    const result = await peer.call('test_input_required_result_multiple_inputs');
    assert.equal(text(result), 'Ada: Good morning! Roots: file:///tmp');
    checkRounds(rounds(peer, from), 2);
    const { inputRequests } = rounds(peer, from)[0].result;
    assert.deepEqual(Object.keys(inputRequests).sort(), ['client_roots', 'greeting', 'user_name']);
  },
  WITHOUT_SESSIONS,
);

task(
  'rounds follow each other, and answers of the first are known in the last',
  async (peer) => {
    const from = peer.wire.log.length;
    peer.answers['elicitation/create'] = ({ requestedSchema }) => {
      const [field] = Object.keys(requestedSchema.properties);
      return filled({ [field]: { name: 'Ada', color: 'blue' }[field] });
    };
    assert.equal(text(await peer.call('test_input_required_result_multi_round')), 'Ada likes blue');
    checkRounds(rounds(peer, from), 3);
  },
  WITHOUT_SESSIONS,
);

task(
  'a prompt asks as well',
  async (peer) => {
    const from = peer.wire.log.length;
    peer.answers['elicitation/create'] = () => filled({ context: 'a rainy day' });
    const { messages } = await peer.client.getPrompt({ name: 'test_input_required_result_prompt' });
    assert.deepEqual(messages.map(({ content }) => content.text), ['Use this context: a rainy day']);
    checkRounds(rounds(peer, from, 'prompts/get'), 2);
  },
  WITHOUT_SESSIONS,
);

task(
  'a user who declines has answered, a model that is refused has not',
  async (peer) => {
    const from = peer.wire.log.length;
    peer.answers['elicitation/create'] = () => ({ action: 'decline' });
    assert.match(failure(await peer.call('test_input_required_result_elicitation')), /decline/);
    checkRounds(rounds(peer, from), 2);
    const later = peer.wire.log.length;
    peer.answers['sampling/createMessage'] = () => {
      throw new Error('the user said no');
    };
    await assert.rejects(peer.call('test_input_required_result_sampling'), /the user said no/);
    await peer.settle();
    assert.equal(peer.sent('tools/call', later).length, 1);
  },
  WITHOUT_SESSIONS,
);

task(
  'only what the request says that the client can is asked',
  async (peer) => {
    const call = async (name, capabilities) =>
      peer.byHand('tools/call', { name, _meta: { [CAPABILITIES]: capabilities } });
    const tool = 'test_input_required_result_capabilities';
    const cases = [
      [{ sampling: {} }, ['greeting']],
      [{ elicitation: {} }, ['user_name']],
      [{ elicitation: { url: {} }, roots: {} }, ['client_roots']],
      [{ sampling: {}, elicitation: { form: {} }, roots: {} }, ['client_roots', 'greeting', 'user_name']],
    ];
    for (const [capabilities, names] of cases) {
      const { result } = await call(tool, capabilities);
      assert.deepEqual(Object.keys(result.inputRequests).sort(), names, JSON.stringify(capabilities));
    }
    assert.equal(text((await call(tool, {})).result), 'Answered: []');
    const needed = [
      ['test_input_required_result_sampling', { elicitation: {} }, { sampling: {} }],
      ['test_input_required_result_list_roots', {}, { roots: {} }],
      ['test_input_required_result_elicitation', { elicitation: { url: {} } }, { elicitation: { form: {} } }],
    ];
    for (const [name, capabilities, requiredCapabilities] of needed) {
      const { error } = await call(name, capabilities);
      assert.equal(error?.code, -32021, name);
      assert.deepEqual(error.data, { requiredCapabilities });
    }
  },
  WITHOUT_SESSIONS,
);

task(
  'a state is taken as it was given, or not at all',
  async (peer) => {
    const name = 'test_input_required_result_tampered_state';
    const call = async (more, tool = name) => peer.byHand('tools/call', { name: tool, ...more });
    const { result } = await call({});
    const { requestState } = result;
    const inputResponses = { confirm: filled({ ok: false }) };
    const at = requestState.length >> 1;
    const other = requestState[at] === 'A' ? 'B' : 'A';
    const forged = [
      requestState.slice(0, at) + other + requestState.slice(at + 1),
      requestState.slice(0, -1),
      `${requestState}A`,
      requestState.split('').reverse().join(''),
      '',
      'no state at all',
      { toString: requestState },
    ];
    for (const state of forged) {
      const { error } = await call({ inputResponses, requestState: state });
      assert.equal(error?.code, -32602, JSON.stringify(state));
    }
    // Nor does it serve for another request.
    const elsewhere = await call({ inputResponses, requestState }, 'test_input_required_result_request_state');
    assert.equal(elsewhere.error?.code, -32602);
    const otherwise = await call({ inputResponses, requestState, arguments: { a: 1 } });
    assert.equal(otherwise.error?.code, -32602);
    assert.equal(text((await call({ inputResponses, requestState })).result), 'state-ok, ok: false');
  },
  WITHOUT_SESSIONS,
);

task(
  'an answer that is missing is asked for again, one too many is ignored',
  async (peer) => {
    const name = 'test_input_required_result_multiple_inputs';
    const call = async (more) => (await peer.byHand('tools/call', { name, ...more }));
    const { result: first } = await call({});
    const { result: second } = await call({
      requestState: first.requestState,
      inputResponses: { user_name: filled({ name: 'Ada' }), nobody_asked: said('Never mind.') },
    });
    assert.equal(second.resultType, 'input_required');
    assert.deepEqual(Object.keys(second.inputRequests).sort(), ['client_roots', 'greeting']);
    const { result: last } = await call({
      requestState: second.requestState,
      inputResponses: { greeting: said('Hi!'), client_roots: { roots: [] } },
    });
    assert.equal(text(last), 'Ada: Hi! Roots: ');
    for (const inputResponses of [[], 'Ada', { user_name: 'Ada' }, { user_name: { action: 7 } }]) {
      const { error } = await call({ requestState: first.requestState, inputResponses });
      assert.equal(error?.code, -32602, JSON.stringify(inputResponses));
    }
  },
  WITHOUT_SESSIONS,
);
