// What came of a scenario, by the checks that the suite has written down. Stricter than the suite, for which warnings are
// no failure of a server, and silence is success.
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';

/** Scenarios that the suite never runs to an end, with any implementation. */
const SKIPPED_UPSTREAM = ['tasks-status-notifications'];

/** Every message that goes over the wire is checked in every scenario: that alone shows nothing of the scenario. */
const ALWAYS = 'wire-schema-valid';

/** All checks under a folder. */
export async function checksIn(folder) {
  const entries = await readdir(folder, { recursive: true });
  const files = entries.filter((entry) => entry.endsWith('checks.json'));
  const read = async (file) => JSON.parse(await readFile(join(folder, file), 'utf8'));
  return (await Promise.all(files.map(read))).flat();
}

/**
 * `passed`, `failed` or `skipped`, and why. A scenario has passed if the suite ended well, nothing was found wrong, not
 * even by a warning, and something was found right. One that was skipped counts as failed, unless no implementation can do better.
 */
export function verdict(name, checks, status, text) {
  const of = (...statuses) => checks.filter((check) => statuses.includes(check.status));
  const wrong = of('FAILURE', 'WARNING');
  if (wrong.length > 0) {
    const why = wrong.map((check) => `${check.status} ${check.id}: ${check.errorMessage ?? check.description ?? ''}`);
    return { outcome: 'failed', why };
  }
  const shown = of('SUCCESS').some((check) => check.id !== ALWAYS);
  if (!shown && SKIPPED_UPSTREAM.includes(name) && of('SKIPPED').length > 0) return { outcome: 'skipped', why: [] };
  if (!shown) {
    const said = of('SKIPPED').map((check) => `skipped ${check.id}: ${check.errorMessage ?? ''}`);
    return { outcome: 'failed', why: ['nothing was found right', ...said, ...(said.length > 0 ? [] : last(text))] };
  }
  if (status !== 0) return { outcome: 'failed', why: [`exit status ${status}`, ...last(text)] };
  return { outcome: 'passed', why: [] };
}

/** The end of what was printed. */
function last(text) {
  return text.trim().split('\n').filter((line) => line.trim() !== '').slice(-5);
}
