// Clients and protected servers, each with each, at one authorization server.
//
// usage: node suite.mjs FOLDER-OF-EXAMPLES PYTHON ADAPTER...
import { spawn } from 'node:child_process';
import { generateKeyPairSync } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const [examples, pythonText, ...adapters] = process.argv.slice(2);
const python = pythonText.split(' ');
const file = (name) => fileURLToPath(new URL(name, import.meta.url));
const LIMIT = 60_000;

const running = new Set();

function start([command, ...args], env = {}) {
  const child = spawn(command, args, { env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'] });
  running.add(child);
  child.on('close', () => running.delete(child));
  child.errors = '';
  child.stderr.setEncoding('utf8').on('data', (text) => (child.errors += text));
  return child;
}

/** Starts a server, and returns the URL that its first line is or ends with. */
function serve(command, env) {
  const child = start(command, env);
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`${command.join(' ')} says nothing: ${child.errors}`)), LIMIT);
    createInterface(child.stdout).once('line', (line) => {
      clearTimeout(timer);
      resolve(line.split(' ').at(-1));
    });
    child.on('error', reject);
    child.on('close', (code) => reject(new Error(`${command.join(' ')} ended with ${code}: ${child.errors}`)));
  });
}

/** Runs a client to its end, and returns what it has printed. */
function run(command, env) {
  const child = start(command, env);
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => child.kill('SIGKILL'), LIMIT);
    let output = '';
    child.stdout.setEncoding('utf8').on('data', (text) => (output += text));
    child.on('error', reject);
    child.on('close', (code) => {
      clearTimeout(timer);
      if (code === 0) resolve({ output: output.trim(), errors: child.errors });
      else reject(new Error(`exit status ${code}: ${output} ${child.errors}`.replaceAll(/\s*\n\s*/g, ' ')));
    });
  });
}

/** Returns a port that nothing listens on. */
function freePort() {
  return new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

let passed = 0;
let failed = 0;

async function task(name, body) {
  try {
    await body();
    passed++;
    console.log(`ok ${name}`);
  } catch (error) {
    failed++;
    console.log(`FAIL ${name}: ${error.message}`);
  }
}

const issuer = await serve(['node', file('provider.mjs')]);
const counts = async () => (await fetch(`${issuer}/test/counts`)).json();

/** Replaces the access tokens in the file of a client by one that no server accepts. */
function replaceAccessTokens(path) {
  const text = readFileSync(path, 'utf8');
  const replaced = text.replaceAll(/"access_token":"[^"]*"/g, '"access_token":"of-no-server"');
  if (replaced === text) throw new Error(`${path} has no access token`);
  writeFileSync(path, replaced);
}

/** Runs a body, and compares how often each thing has happened at the authorization server with what is expected. */
async function counted(expected, body) {
  const before = await counts();
  await body();
  const after = await counts();
  for (const name of Object.keys(after)) {
    const times = after[name] - before[name];
    if (times !== (expected[name] ?? 0)) throw new Error(`${name}: ${times} times, and not ${expected[name] ?? 0}`);
  }
}

const scratch = mkdtempSync(join(tmpdir(), 'mcp-authorization-'));
let folders = 0;
/** The environment of a new user of our client: a folder for tokens, and a browser without a screen. */
const user = () => ({ XDG_STATE_HOME: join(scratch, `user-${folders++}`), BROWSER: file('browser.mjs') });
const machine = { OAUTH_ISSUER: issuer, OAUTH_CLIENT_ID: 'machine', OAUTH_CLIENT_SECRET: 'a secret that only tests know' };

/** The environment of a user whose tokens are bound to a key of the client. */
function userWithKey() {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const key = join(scratch, `key-${folders}.pem`);
  writeFileSync(key, privateKey.export({ type: 'pkcs8', format: 'pem' }), { mode: 0o600 });
  return { ...user(), OAUTH_DPOP_KEY: key };
}

const foreign = {
  'the server of the TypeScript SDK': await serve(['node', file('protected.mjs'), issuer]),
  'the server of the Python SDK': await serve([...python, file('protected.py'), issuer]),
};
const clients = {
  'the client of the TypeScript SDK 1.x': ['node', file('client-v1.mjs')],
  'the client of the TypeScript SDK 2.x': ['node', file('client-v2.mjs')],
  'the client of the Python SDK': [...python, file('client.py')],
};

/** What happens when a new user signs in. */
const once = { registrations: 1, authorizations: 1, codes: 1 };

for (const adapter of adapters) {
  const server = join(examples, `protected-server-${adapter}`);
  const client = join(examples, `oauth-client-${adapter}`);
  const address = `127.0.0.1:${await freePort()}`;
  const url = await serve([server, address, `http://${address}/mcp`, issuer, `${issuer}/jwks`]);
  console.log(`\n== ${adapter} at ${url}`);

  // It accepts no other tokens than those that are bound to a key, and wants a nonce in each proof.
  const boundAddress = `127.0.0.1:${await freePort()}`;
  const boundUrl = await serve([server, boundAddress, `http://${boundAddress}/mcp`, issuer, `${issuer}/jwks`, '--dpop']);

  for (const [name, command] of Object.entries(clients)) {
    await task(`${name} -> protected-server-${adapter}`, () =>
      counted(once, async () => {
        const { output } = await run([...command, url, 'whoami']);
        if (output === '') throw new Error('the tool says nothing');
      }),
    );
  }

  for (const [name, address] of Object.entries({ [`protected-server-${adapter}`]: url, ...foreign })) {
    const call = (env) => run([client, address, 'whoami'], env);
    await task(`oauth-client-${adapter} -> ${name}: a user signs in, and is not asked again`, async () => {
      const env = user();
      let first;
      await counted(once, async () => (first = (await call(env)).output));
      await counted({}, async () => {
        const { output } = await call(env);
        if (output !== first || output === '') throw new Error(`${output} and not ${first}`);
      });
    });
    await task(`oauth-client-${adapter} -> ${name}: an expired token is refreshed`, async () => {
      await fetch(`${issuer}/test/expire`, { method: 'POST' });
      await counted({ ...once, refreshes: 1 }, () => call(user()));
    });
    await task(`oauth-client-${adapter} -> ${name}: a refresh token is replaced by the next one`, async () => {
      const env = user();
      await counted(once, () => call(env));
      // A refresh token that is used twice is refused, and the user would be asked again.
      for (let round = 0; round < 2; round++) {
        replaceAccessTokens(join(env.XDG_STATE_HOME, 'mcp-oauth-client/tokens.json'));
        await counted({ refreshes: 1 }, () => call(env));
      }
    });
    await task(`oauth-client-${adapter} -> ${name}: a client with credentials of its own`, () =>
      counted({ credentials: 1 }, async () => {
        const { output, errors } = await call({ ...user(), ...machine });
        if (!output.includes('machine')) throw new Error(`it is ${output}`);
        if ((output + errors).includes(machine.OAUTH_CLIENT_SECRET)) throw new Error('the secret is printed');
      }),
    );
  }

  const bound = (env) => run([client, boundUrl, 'whoami'], env);
  const withKeys = `oauth-client-${adapter} -> protected-server-${adapter} --dpop`;
  await task(`${withKeys}: a user signs in, and is not asked again`, async () => {
    const env = userWithKey();
    await counted({ ...once, dpop: 1 }, () => bound(env));
    await counted({}, () => bound(env));
    // The stored tokens are of no use for another key.
    const other = { ...env, OAUTH_DPOP_KEY: userWithKey().OAUTH_DPOP_KEY };
    await counted({ ...once, dpop: 1 }, () => bound(other));
  });
  await task(`${withKeys}: an expired token is refreshed`, async () => {
    await fetch(`${issuer}/test/expire`, { method: 'POST' });
    await counted({ ...once, refreshes: 1, dpop: 2 }, () => bound(userWithKey()));
  });
  await task(`${withKeys}: a client with credentials of its own`, () =>
    counted({ credentials: 1, dpop: 1 }, async () => {
      const { output } = await bound({ ...userWithKey(), ...machine });
      if (!output.includes('machine')) throw new Error(`it is ${output}`);
    }),
  );
  await task(`${withKeys}: a client without a key is refused`, () =>
    counted({}, async () => {
      const refused = await bound({ ...user(), ...machine }).then(({ output }) => output, () => undefined);
      if (refused !== undefined) throw new Error(`the tool says ${refused}`);
    }),
  );
  await task(`the client of oauth4webapi -> protected-server-${adapter} --dpop`, () =>
    counted({ credentials: 1, dpop: 1 }, async () => {
      const { OAUTH_CLIENT_ID: id, OAUTH_CLIENT_SECRET: secret } = machine;
      const { output } = await run(['node', file('dpop-client.mjs'), boundUrl, issuer, id, secret]);
      if (output !== 'machine') throw new Error(`it is ${output}`);
    }),
  );
}

for (const adapter of adapters) {
  const address = `127.0.0.1:${await freePort()}`;
  const url = await serve([
    join(examples, `protected-server-${adapter}`), address, `http://${address}/mcp`, issuer, `${issuer}/jwks`,
  ]);
  await task(`mcp login and logout -> protected-server-${adapter}`, async () => {
    const env = user();
    const mcp = (...args) => run([join(examples, '../mcp'), ...args], env);
    await counted(once, () => mcp('login', url));
    await counted({}, async () => {
      const { output } = await mcp('call', url, 'whoami');
      if (output === '') throw new Error('the tool says nothing');
    });
    replaceAccessTokens(join(env.XDG_STATE_HOME, 'mcp/tokens.json'));
    await counted({ refreshes: 1 }, () => mcp('list', url));
    await counted({ revocations: 1 }, () => mcp('logout', url));
    await counted({}, async () => {
      const refused = await mcp('list', url).then(({ output }) => `it lists ${output}`, ({ message }) => message);
      if (!refused.startsWith('exit status 3') || !refused.includes('mcp login')) throw new Error(refused);
    });
  });
}

for (const child of running) child.kill();
rmSync(scratch, { recursive: true, force: true });
const expected = 21 * adapters.length;
if (passed + failed !== expected) {
  failed++;
  console.log(`FAIL there are ${passed + failed - 1} checks, and not ${expected}`);
}
console.log(`\n${passed} passed, ${failed} failed`);
process.exit(failed === 0 ? 0 : 1);
