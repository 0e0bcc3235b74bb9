// What a client of the TypeScript SDK does at a protected server, for both generations of the SDK.
//
// usage: node client-vN.mjs URL [TOOL]
//
// Registers itself, signs its user in, lists the tools and calls one. Prints the text of its result.
import { agree } from './user.mjs';

const REDIRECT = 'http://127.0.0.1:8123/callback';

/** The credentials of one client, in memory. */
class Provider {
  redirectUrl = REDIRECT;
  clientMetadata = {
    client_name: 'A client of the TypeScript SDK',
    redirect_uris: [REDIRECT],
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
    token_endpoint_auth_method: 'none',
    application_type: 'native',
  };
  clientInformation() {
    return this.information;
  }
  saveClientInformation(information) {
    this.information = information;
  }
  tokens() {
    return this.stored;
  }
  saveTokens(tokens) {
    this.stored = tokens;
  }
  async redirectToAuthorization(url) {
    this.redirect = await agree(url);
  }
  saveCodeVerifier(verifier) {
    this.verifier = verifier;
  }
  codeVerifier() {
    return this.verifier;
  }
  saveDiscoveryState(state) {
    this.discovery = state;
  }
  discoveryState() {
    return this.discovery;
  }
}

export async function main({ Client, UnauthorizedError, StreamableHTTPClientTransport, finish }) {
  const [address, tool = 'whoami'] = process.argv.slice(2);
  const provider = new Provider();
  const connect = async () => {
    const transport = new StreamableHTTPClientTransport(new URL(address), { authProvider: provider });
    const client = new Client({ name: 'protected-client', version: '1.0.0' });
    try {
      await client.connect(transport);
      return client;
    } catch (error) {
      if (!(error instanceof UnauthorizedError) || provider.redirect === undefined) throw error;
      const { searchParams } = provider.redirect;
      provider.redirect = undefined;
      await finish(transport, searchParams);
      return connect();
    }
  };
  const client = await connect();
  const { tools } = await client.listTools();
  if (!tools.some(({ name }) => name === tool)) throw new Error(`there is no tool ${tool}: ${tools.map(({ name }) => name)}`);
  const { content, isError } = await client.callTool({ name: tool, arguments: {} });
  if (isError) throw new Error(content[0].text);
  console.log(content[0].text);
  await client.close();
}
