"""A client of the Python SDK at a protected server.

usage: python client.py URL [TOOL]

Registers itself, signs its user in, lists the tools and calls one. Prints the text of its result.
"""

import asyncio
import sys
from urllib.parse import parse_qs, urljoin, urlsplit

import httpx2
from mcp import Client
from mcp.client.auth.oauth2 import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata

REDIRECT = "http://127.0.0.1:8123/callback"


class Storage:
    """Keeps the credentials of one client in memory."""

    tokens = None
    client = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client):
        self.client = client


class User:
    """Signs in at the authorization server, as a browser with cookies does."""

    async def redirect(self, url):
        origin = urlsplit(url).netloc
        async with httpx2.AsyncClient(follow_redirects=False) as browser:
            for _ in range(20):
                response = await browser.get(url)
                url = urljoin(url, response.headers["location"])
                if urlsplit(url).netloc != origin:
                    self.query = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
                    return
        raise RuntimeError("the redirects do not end")

    async def callback(self):
        return AuthorizationCodeResult(**{name: self.query.get(name) for name in ("code", "state", "iss")})


async def main(address, tool="whoami"):
    user = User()
    metadata = OAuthClientMetadata(
        client_name="A client of the Python SDK",
        redirect_uris=[REDIRECT],
        grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
        token_endpoint_auth_method="none",
    )
    auth = OAuthClientProvider(address, metadata, Storage(), user.redirect, user.callback)
    async with create_mcp_http_client(auth=auth) as http:
        async with Client(streamable_http_client(address, http_client=http)) as client:
            tools = (await client.list_tools()).tools
            assert tool in [it.name for it in tools], tools
            result = await client.call_tool(tool, {})
            assert not result.is_error, result
            print(result.content[0].text)


asyncio.run(main(*sys.argv[1:]))
