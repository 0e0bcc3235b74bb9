// What the tasks are written with.
import assert from 'node:assert/strict';
import { MODERN } from '../peer.mjs';

/** When a task makes sense: only in sessions, or only without. */
export const IN_SESSIONS = { until: '2025-11-25' };
export const WITHOUT_SESSIONS = { since: MODERN };

/** `{ name, body, when }`; `when` says since and until which revision a task makes sense. */
export const tasks = [];

/** One thing that a client does; it throws if anything comes out wrong. */
export function task(name, body, when = {}) {
  tasks.push({ name, body, when });
}

const PNG = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);

/** The text of a result that consists of one text and is no error. */
export function text(result) {
  assert(!result.isError, `the tool failed: ${JSON.stringify(result.content)}`);
  assert.equal(result.content.length, 1, JSON.stringify(result.content));
  assert.equal(result.content[0].type, 'text');
  return result.content[0].text;
}

/** The text of a result with `isError`. */
export function failure(result) {
  assert.equal(result.isError, true, `the tool succeeded: ${JSON.stringify(result.content)}`);
  return result.content.map((block) => block.text).join('\n');
}

export function isPng(data) {
  const bytes = Buffer.from(data, 'base64');
  assert.equal(bytes.toString('base64'), data, 'not canonical base64');
  assert(bytes.subarray(0, 8).equals(PNG), 'no PNG');
}

export function isWav(data) {
  const bytes = Buffer.from(data, 'base64');
  assert.equal(bytes.subarray(0, 4).toString(), 'RIFF');
  assert.equal(bytes.subarray(8, 12).toString(), 'WAVE');
}

export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
