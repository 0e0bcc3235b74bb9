"""A small server of FastMCP, with what the other servers of this folder have.

usage: python fastmcp_server.py [--http]

Over HTTP, it prints its address in the first line. Its application is that of FastMCP, with its defaults: it has
sessions, and takes requests of all origins.
"""

import socket
import sys

import uvicorn
from fastmcp import FastMCP

server = FastMCP("small", version="1.0.0")
COMPLETIONS = {"name": ["Ada", "Alan", "Grace"], "language": ["French", "Finnish", "German"]}


@server.tool
def add(a: float, b: float) -> str:
    """Adds two numbers."""
    return str(a + b)


@server.tool
def echo(message: str) -> str:
    """Returns the message."""
    return message


@server.resource("small://motto", mime_type="text/plain")
def motto() -> str:
    """A line."""
    return "Small is enough."


@server.resource("small://greeting/{name}", mime_type="text/plain")
def greeting(name: str) -> str:
    """A greeting."""
    return f"Hello, {name}!"


@server.prompt
def hello() -> str:
    """Asks for a greeting."""
    return "Say hello."


@server.prompt
def translate(language: str) -> str:
    """Asks for a translation."""
    return f"Say hello in {language}."


@server.completion
async def complete(_, argument, __):
    return [it for it in COMPLETIONS.get(argument.name, []) if it.startswith(argument.value)]


if sys.argv[1:] == ["--http"]:
    listener = socket.create_server(("127.0.0.1", 0))
    print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
    config = uvicorn.Config(server.http_app(), log_level="warning")
    uvicorn.Server(config).run(sockets=[listener])
else:
    server.run(show_banner=False)
