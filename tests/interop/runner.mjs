// Runs the task list on one generation of the SDK.
import { checkSession, MODERN, Peer, within } from './peer.mjs';
import { tasks } from './tasks/index.mjs';

const LATEST = '2025-11-25';
const MODES = ['legacy', 'auto', 'modern'];
const CARRIERS = ['stdio', 'http', 'sse'];
const LIMIT = 30_000;

const USAGE = `usage: node client-vN.mjs [--mode ${MODES.join('|')}] [--over ${CARRIERS.join('|')}] [--version V] [--only NAME] [--without NAMES] -- COMMAND ARGS...`;

function parse(args) {
  const options = { mode: 'legacy', over: 'stdio' };
  while (args.length > 0 && args[0] !== '--') {
    const [name, value] = args.splice(0, 2);
    if (!['--mode', '--over', '--version', '--only', '--without'].includes(name) || value === undefined) throw new Error(USAGE);
    options[name.slice(2)] = value;
  }
  const [, command, ...rest] = args;
  const known = MODES.includes(options.mode) && CARRIERS.includes(options.over);
  if (command === undefined || !known) throw new Error(USAGE);
  const version = options.mode === 'legacy' ? LATEST : MODERN;
  return { version, ...options, command, args: rest };
}

/** Whether a task belongs into a run: revisions are dates, which compare as text. */
function applies({ since = '', until = '9', tasks = false, over = CARRIERS }, sdk, version, carrier) {
  return since <= version && version <= until && (!tasks || sdk.tasks !== undefined) && over.includes(carrier);
}

export async function main(sdk) {
  let options;
  try {
    options = parse(process.argv.slice(2));
  } catch (error) {
    console.error(error.message);
    process.exit(2);
  }
  const { mode, over: carrier, version, command, args, only } = options;
  // Their names, with `|` between them.
  const without = options.without?.split('|') ?? [];
  let passed = 0;
  let failed = 0;
  const report = (name, error) => {
    if (error === undefined) {
      passed++;
      console.log(`ok ${name}`);
    } else {
      failed++;
      console.log(`FAIL ${name}: ${error.message?.replaceAll(/\s*\n\s*/g, ' ') ?? error}`);
    }
  };
  const attempt = async (name, body) => {
    try {
      await within(LIMIT, body());
      report(name);
    } catch (error) {
      report(name, error);
    }
  };

  const opened = [];
  /** Opens one more connection, to a server of its own with further arguments. */
  const open = async (more = []) => {
    const peer = await Peer.open(sdk, { command, args: [...args, ...more], version, mode, carrier });
    opened.push(peer);
    return peer;
  };
  try {
    const peer = await within(LIMIT, open());
    for (const { name, body, when } of tasks) {
      if (applies(when, sdk, version, carrier) && (only === undefined || only === name) && !without.includes(name)) {
        peer.answers = {};
        await attempt(name, () => body(peer, { sdk, version, open }));
      }
    }
    for (const [number, peer] of opened.entries()) {
      await attempt(`connection ${number + 1} ends by itself and in order`, async () => {
        if (peer.ended === undefined) await peer.settle();
        const { code, signal } = await peer.close();
        if (code !== 0) throw new Error(`the server ended with status ${code}, signal ${signal}`);
        checkSession(peer);
      });
    }
  } catch (error) {
    report('connect', error);
  }
  if (failed > 0) {
    for (const peer of opened) if (peer.stderr !== '') console.error(`server's standard error:\n${peer.stderr}`);
  }
  console.log(`${passed} passed, ${failed} failed`);
  // A task that hangs must not keep the program alive.
  process.exit(failed > 0 ? 1 : 0);
}
