// A client with a token that is bound to its key, made with oauth4webapi: calls `whoami` at a protected server, and sees
// that the server refuses the token without a proof, and a proof that was used before.
//
// usage: node dpop-client.mjs URL ISSUER CLIENT-ID SECRET
import * as oauth from 'oauth4webapi';

const [url, issuerText, id, secret] = process.argv.slice(2);
const insecure = { [oauth.allowInsecureRequests]: true };
const issuer = new URL(issuerText);
const client = { client_id: id };

const server = await oauth.processDiscoveryResponse(issuer, await oauth.discoveryRequest(issuer, insecure));
const keys = await oauth.generateKeyPair('ES256');
const DPoP = oauth.DPoP(client, keys);

/** Sends a request again if the server has answered with the first nonce. */
async function withNonce(send) {
  try {
    return await send();
  } catch (error) {
    if (!oauth.isDPoPNonceError(error)) throw error;
    return send();
  }
}

const token = await withNonce(async () => {
  const parameters = { resource: url, scope: 'mcp' };
  const response = await oauth.clientCredentialsGrantRequest(
    server, client, oauth.ClientSecretBasic(secret), parameters, { DPoP, ...insecure },
  );
  return oauth.processClientCredentialsResponse(server, client, response);
});
if (token.token_type !== 'dpop') throw new Error(`the token is of type ${token.token_type}`);

/** The headers with which the last request was sent. */
let sent;
const recorded = async (target, init) => {
  sent = new Headers(init.headers);
  return fetch(target, init);
};

async function post(message) {
  const headers = new Headers({ accept: 'application/json, text/event-stream', 'content-type': 'application/json' });
  headers.set('mcp-protocol-version', '2026-07-28');
  headers.set('mcp-method', message.method);
  headers.set('mcp-name', message.params.name);
  const options = { DPoP, [oauth.customFetch]: recorded, ...insecure };
  return withNonce(() =>
    oauth.protectedResourceRequest(token.access_token, 'POST', new URL(url), headers, JSON.stringify(message), options),
  );
}

const call = {
  jsonrpc: '2.0',
  id: 1,
  method: 'tools/call',
  params: {
    name: 'whoami',
    arguments: {},
    _meta: { 'io.modelcontextprotocol/protocolVersion': '2026-07-28', 'io.modelcontextprotocol/clientCapabilities': {} },
  },
};
const response = await post(call);
const text = await response.text();
if (response.status !== 200) throw new Error(`${response.status} ${text}`);

/** Sends the last request with other credentials, and checks how it is refused. */
async function refused(authorization, proof, challenge) {
  const headers = new Headers(sent);
  headers.set('authorization', authorization);
  if (proof === null) headers.delete('dpop');
  const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify(call) });
  const received = `${response.status} ${response.headers.get('www-authenticate')}`;
  await response.body?.cancel();
  if (!received.startsWith(`401 DPoP error="${challenge}"`)) throw new Error(`${authorization.slice(0, 6)}: ${received}`);
}
await refused(`DPoP ${token.access_token}`, 'the same', 'invalid_dpop_proof');
await refused(`DPoP ${token.access_token}`, null, 'invalid_dpop_proof');
await refused(`Bearer ${token.access_token}`, null, 'invalid_token');
console.log(text.includes(id) ? id : text);
