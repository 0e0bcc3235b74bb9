// A server of the TypeScript SDK that is protected by an authorization server. Prints its address in the first line.
//
// usage: node protected.mjs ISSUER
import { createServer } from 'node:http';

import { getOAuthProtectedResourceMetadataUrl, mcpAuthMetadataRouter } from '@modelcontextprotocol/sdk/server/auth/router.js';
import { requireBearerAuth } from '@modelcontextprotocol/sdk/server/auth/middleware/bearerAuth.js';
import { InvalidTokenError } from '@modelcontextprotocol/sdk/server/auth/errors.js';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import express from 'express';
import { createRemoteJWKSet, jwtVerify } from 'jose';

const [issuer] = process.argv.slice(2);
const oauthMetadata = await (await fetch(`${issuer}/.well-known/oauth-authorization-server`)).json();
const keys = createRemoteJWKSet(new URL(oauthMetadata.jwks_uri));

const app = express();
const server = createServer(app);
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
const address = new URL(`http://127.0.0.1:${server.address().port}/mcp`);

const verifier = {
  async verifyAccessToken(token) {
    const { payload } = await jwtVerify(token, keys, { issuer, audience: address.href }).catch((error) => {
      throw new InvalidTokenError(error.message);
    });
    return { token, clientId: payload.client_id, scopes: payload.scope.split(' '), expiresAt: payload.exp };
  },
};

app.use(mcpAuthMetadataRouter({ oauthMetadata, resourceServerUrl: address, scopesSupported: ['mcp'] }));
app.use(requireBearerAuth({ verifier, resourceMetadataUrl: getOAuthProtectedResourceMetadataUrl(address) }));
app.use(express.json());
app.post('/mcp', async (request, response) => {
  const mcp = new McpServer({ name: 'protected', version: '1.0.0' });
  mcp.registerTool('whoami', { description: 'Says which client calls.' }, ({ authInfo }) => ({
    content: [{ type: 'text', text: authInfo.clientId }],
  }));
  const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined });
  response.on('close', () => mcp.close());
  await mcp.connect(transport);
  await transport.handleRequest(request, response, request.body);
});
app.all('/mcp', (_, response) => response.status(405).end());
console.log(address.href);
