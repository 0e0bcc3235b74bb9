// An authorization server for tests: oidc-provider on loopback. Its user agrees to everything without a page.
//
// Prints its issuer in the first line. `POST /test/expire` makes the access tokens of the next code exchange expired ones;
// `GET /test/counts` says how often each thing has happened.
import { createServer } from 'node:http';

import Provider from 'oidc-provider';

const SCOPES = ['mcp', 'notes:write'];
const USER = 'ada';

const counts = { registrations: 0, authorizations: 0, codes: 0, refreshes: 0, credentials: 0, dpop: 0, revocations: 0 };
let expiresNext = false;

const server = createServer();
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
const issuer = `http://127.0.0.1:${server.address().port}`;

const provider = new Provider(issuer, {
  clients: [
    {
      client_id: 'machine',
      client_secret: 'a secret that only tests know',
      grant_types: ['client_credentials'],
      redirect_uris: [],
      response_types: [],
    },
  ],
  // Clients of this kind have a redirect URI on loopback (RFC 8252, section 7.3).
  clientDefaults: { application_type: 'native' },
  scopes: ['openid', 'offline_access', ...SCOPES],
  clientAuthMethods: ['none', 'client_secret_basic', 'client_secret_post', 'private_key_jwt'],
  pkce: { required: () => true },
  rotateRefreshToken: true,
  issueRefreshToken: async (_, client) => client.grantTypeAllowed('refresh_token'),
  findAccount: async (_, id) => ({ accountId: id, claims: async () => ({ sub: id }) }),
  interactions: { url: (_, { uid }) => `/interaction/${uid}` },
  formats: {
    customizers: {
      jwt: async (ctx, _, jwt) => {
        if (expiresNext && ctx.oidc.params.grant_type === 'authorization_code') {
          expiresNext = false;
          jwt.payload.iat -= 7200;
          jwt.payload.exp = jwt.payload.iat + 3600;
        }
      },
    },
  },
  features: {
    devInteractions: { enabled: false },
    registration: { enabled: true },
    clientCredentials: { enabled: true },
    introspection: { enabled: true },
    revocation: { enabled: true },
    dPoP: { enabled: true, nonceSecret: Buffer.alloc(32, 7), requireNonce: () => true },
    resourceIndicators: {
      enabled: true,
      useGrantedResource: async () => true,
      getResourceServerInfo: async (_, resource) => ({
        scope: SCOPES.join(' '),
        audience: resource,
        accessTokenTTL: 600,
        accessTokenFormat: 'jwt',
        jwt: { sign: { alg: 'RS256' } },
      }),
    },
  },
});

provider.on('registration_create.success', () => counts.registrations++);
provider.on('authorization.success', () => counts.authorizations++);
provider.on('refresh_token.destroyed', () => counts.revocations++);
provider.on('grant.success', ({ oidc }) => {
  const kinds = { authorization_code: 'codes', refresh_token: 'refreshes', client_credentials: 'credentials' };
  counts[kinds[oidc.params.grant_type]]++;
  if (oidc.entities.AccessToken?.jkt ?? oidc.entities.ClientCredentials?.jkt) counts.dpop++;
});
provider.on('server_error', (_, error) => console.error(error));
for (const kind of ['grant', 'authorization', 'registration_create']) {
  provider.on(`${kind}.error`, (_, error) => console.error(kind, error.message, error.error_description ?? ''));
}

/** Signs the user in and agrees to all that is asked for. */
async function interact(request, response) {
  const { prompt, params, session, grantId } = await provider.interactionDetails(request, response);
  if (prompt.name === 'login') {
    return provider.interactionFinished(request, response, { login: { accountId: USER } });
  }
  const grant = (await provider.Grant.find(grantId)) ??
    new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
  const { missingOIDCScope = [], missingResourceScopes = {} } = prompt.details;
  grant.addOIDCScope(missingOIDCScope.join(' '));
  for (const [resource, scopes] of Object.entries(missingResourceScopes)) {
    grant.addResourceScope(resource, scopes.join(' '));
  }
  return provider.interactionFinished(request, response, { consent: { grantId: await grant.save() } });
}

const handle = provider.callback();
server.on('request', (request, response) => {
  const { pathname } = new URL(request.url, issuer);
  if (pathname === '/test/counts') {
    response.end(JSON.stringify(counts));
  } else if (pathname === '/test/expire' && request.method === 'POST') {
    expiresNext = true;
    response.end();
  } else if (pathname.startsWith('/interaction/')) {
    interact(request, response).catch((error) => {
      console.error(error);
      response.writeHead(500).end();
    });
  } else {
    handle(request, response);
  }
});
console.log(issuer);
