// Judges the records of a run with `mcp replay`: node records.mjs MCP FOLDER
//
// A record is in one of the folders `client`, `server` and `both`, which say which side is ours. The other side is the peer
// that the name of the file begins with. In `checked` and `checked-ours` the client is `mcp check`, which sends wrong messages on
// purpose, so only the server is judged, a peer or ours. Prints the broken rules of each peer, and
// `N records, N messages, N violations of ours, N of peers` last. The exit status is 1 if one is ours, or if more messages are
// not judged than is usual: a replay that judges nothing finds nothing.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';

const [mcp, folder] = process.argv.slice(2);
const OURS = { client: ['client'], server: ['server'], both: ['client', 'server'], checked: [], 'checked-ours': ['server'] };

/**
 * The largest share of the messages of a folder that may not be judged, such as messages that a server has refused. Three times
 * what a run of mcp-blocking had at the end of November 2026, rounded up: 16 of 4,291, 228 of 17,526, 0 of 4,238, 16 of 939 and
 * 82 of 821. Reconnects depend on the load, and what a peer refuses on its version.
 */
const MOST_NOT_JUDGED = { client: 0.02, server: 0.04, both: 0.01, checked: 0.06, 'checked-ours': 0.3 };

const lines = (text) => text.split('\n').filter((line) => line !== '');
const parsed = (text) => {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
};

/** The messages that tasks have written, by their methods and ids. */
const byHand = new Map();
const keyOf = ({ method, id }) => JSON.stringify([method, id]);
for (const message of lines(readFileSync(join(folder, 'by-hand.jsonl'), 'utf8')).map(parsed)) {
  const key = keyOf(message);
  byHand.set(key, [...(byHand.get(key) ?? []), message]);
}

/** Whether the client sent only what a task had written: in an exchange, or at a time. */
function isByHand(events, { t, exchange }) {
  const of = (event) =>
    exchange === undefined ? event.t === t && event.stream === 'stdin' : event.exchange === exchange && event.stream === 'request-body';
  const texts = events.filter(of).map(({ text = '' }) => text).join('');
  const messages = lines(texts).map(parsed);
  const isKnown = (message) => byHand.get(keyOf(message ?? {}))?.some((known) => isDeepStrictEqual(known, message));
  return messages.length > 0 && messages.every(isKnown);
}

/** Plays a record, twice, and gives back what the replay says of it. */
function replay(file) {
  const run = () => spawnSync(mcp, ['replay', '--json', file], { maxBuffer: 1 << 30 });
  const [first, second] = [run(), run()];
  assert(first.status === 0 || first.status === 1, `${file}: ${first.stderr}`);
  assert(first.stdout.equals(second.stdout), `${file}: two replays differ`);
  return lines(first.stdout.toString()).map((line) => JSON.parse(line));
}

const sums = { records: 0, messages: 0, ours: 0, peers: 0, byHand: 0, notJudged: 0 };
const found = new Map();
for (const [side, ours] of Object.entries(OURS)) {
  let [messages, notJudged] = [0, 0];
  const files = readdirSync(join(folder, side)).filter((name) => name.endsWith('.jsonl')).sort();
  for (const name of files) {
    const file = join(folder, side, name);
    const said = replay(file);
    const end = said.at(-1);
    assert.equal(end.kind, 'end', file);
    sums.records++;
    messages += Object.values(end.messages).reduce((sum, count) => sum + count, 0);
    notJudged += end.not_judged ?? 0;
    let events;
    for (const line of said) {
      for (const { by, rule, text, what } of line.kind === 'end' ? [] : line.broken ?? []) {
        events ??= lines(readFileSync(file, 'utf8')).map(parsed).filter((event) => event !== undefined);
        if (ours.includes(by)) {
          sums.ours++;
          console.log(`OURS ${file} at ${line.t} µs: the ${by} broke ${rule ?? 'a rule without a row'}: ${what}`);
          if (text) console.log(`  ${text}`);
        } else if (by === 'client' && (side.startsWith('checked') || isByHand(events, line))) {
          sums.byHand++;
        } else {
          sums.peers++;
          const peer = name.split('--')[0];
          const key = JSON.stringify([peer, by, rule ?? '-', what.replaceAll(/\d+/g, 'N').replaceAll(/"[^"]*"/g, '".."')]);
          found.set(key, [...(found.get(key) ?? []), { file, t: line.t, what }]);
        }
      }
    }
  }
  sums.messages += messages;
  sums.notJudged += notJudged;
  const isUsual = notJudged <= messages * MOST_NOT_JUDGED[side];
  console.log(`${side}: ${notJudged} of ${messages} messages not judged${isUsual ? '' : ', which are TOO MANY'}`);
  if (!isUsual) process.exitCode = 1;
}

for (const [key, places] of [...found].sort(([one], [other]) => (one < other ? -1 : 1))) {
  const [peer, by, rule] = JSON.parse(key);
  const [{ file, t, what }] = places;
  console.log(`${peer}, as ${by}: ${rule}, ${places.length} times: ${what}`);
  console.log(`  ${file} at ${t} µs`);
}
console.log(`${sums.byHand} violations in messages that were written to be wrong, ${sums.notJudged} messages not judged`);
console.log(`${sums.records} records, ${sums.messages} messages, ${sums.ours} violations of ours, ${sums.peers} of peers`);
if (sums.ours > 0) process.exitCode = 1;
if (sums.records === 0) process.exitCode = 2;
