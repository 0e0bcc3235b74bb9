// Compares a result of `mcp check --json` with its row of expected.csv. Exit status 1: other rules failed.
//
// usage: node compare.mjs RESULT SERVER TRANSPORT
import { readFileSync } from 'node:fs';

const [result, server, transport] = process.argv.slice(2);
const lines = readFileSync(result, 'utf8').trim().split('\n').map((line) => JSON.parse(line));
const end = lines.at(-1);
if (end.kind !== 'end') throw new Error(`${result} has no sums`);
const failures = lines.filter(({ outcome }) => outcome === 'failed');
const failed = [...new Set(failures.flatMap(({ broken }) => broken))].sort();
const { passed, warning } = end.outcomes;

const rows = readFileSync(new URL('expected.csv', import.meta.url), 'utf8').trim().split('\n').slice(1);
const row = rows.map((line) => line.split(',')).find((cells) => cells[0] === server && cells[1] === transport);
const [, , ids = '', usuallyPassed, usuallyWarnings] = row ?? [];
const expected = ids.split(' ').filter((id) => id !== '');
const missing = expected.filter((id) => !failed.includes(id));
const additional = failed.filter((id) => !expected.includes(id));
const asExpected = row !== undefined && missing.length + additional.length === 0;

// These depend on the version of the peer, and on what it offers. They are no reason to fail.
const beside = (number, usual) => (String(number) === usual ? number : `${number} (expected ${usual ?? 'nothing'})`);
const sums = `${beside(passed, usuallyPassed)} passed, ${beside(warning, usuallyWarnings)} warnings`;
console.log(`${asExpected ? 'ok' : 'NOT'} ${server}, ${transport}: ${sums}, failed: ${failed.join(' ') || 'none'}`);
if (row === undefined) console.log(`  ${server}, ${transport} is not in expected.csv`);
if (missing.length > 0) console.log(`  did not fail: ${missing.join(' ')}`);
for (const { check, broken, why } of failures) {
  if (broken.some((id) => additional.includes(id))) console.log(`  not expected: ${check} (${broken.join(' ')}): ${why}`);
}
process.exitCode = asExpected ? 0 : 1;
