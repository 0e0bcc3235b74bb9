"""A server of the Python SDK that is protected by an authorization server. Prints its address in the first line.

usage: python protected.py ISSUER
"""

import asyncio
import socket
import sys

import jwt
import uvicorn
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import MCPServer


class Verifier:
    """Verifies JWT access tokens with the keys of the authorization server."""

    def __init__(self, issuer, address):
        self.issuer, self.address = issuer, address
        self.keys = jwt.PyJWKClient(f"{issuer}/jwks")

    def verify(self, token):
        try:
            key = self.keys.get_signing_key_from_jwt(token)
            claims = jwt.decode(token, key.key, ["RS256"], issuer=self.issuer, audience=self.address)
        except jwt.PyJWTError:
            return None
        return AccessToken(
            token=token,
            client_id=claims["client_id"],
            scopes=claims["scope"].split(),
            expires_at=claims["exp"],
            resource=self.address,
        )

    async def verify_token(self, token):
        return await asyncio.to_thread(self.verify, token)


def main(issuer):
    listener = socket.create_server(("127.0.0.1", 0))
    address = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
    auth = AuthSettings(
        issuer_url=issuer,
        resource_server_url=address,
        required_scopes=["mcp"],
        validate_token_resource=True,
    )
    server = MCPServer("protected", token_verifier=Verifier(issuer, address), auth=auth)

    @server.tool()
    def whoami() -> str:
        """Says which client calls."""
        return get_access_token().client_id

    print(address, flush=True)
    app = server.streamable_http_app(stateless_http=True)
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])


main(*sys.argv[1:])
