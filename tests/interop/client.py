"""A client of the Python SDK, or of FastMCP, at a server of the examples.

usage: python client.py mcp|fastmcp auto|legacy stdio COMMAND [ARGS...]
       python client.py mcp|fastmcp auto|legacy http COMMAND [ARGS...]

Over HTTP, the server is started with `--http 127.0.0.1:0`, and says on its error output where it is. Prints a line for
each task, and `N passed, N failed` last.
"""

import asyncio
import re
import sys

import fastmcp
import mcp_types as types
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.transports import StdioTransport
from mcp import Client, StdioServerParameters

PATIENCE = 20
TASKS = []
REVISIONS = {"auto": "2026-07-28", "legacy": "2025-11-25"}
LOGS = ["Tool execution started", "Tool processing data", "Tool execution completed"]


def task(body):
    TASKS.append((body.__name__.replace("_", " "), body))
    return body


class Host:
    """What the user of the client answers, and what the server has told."""

    asks_for_logs = False

    def __init__(self):
        self.logs = []
        self.asked = []

    async def sample(self, _, params):
        self.asked.append(("sampling", params.messages[0].content.text, params.max_tokens))
        content = types.TextContent(type="text", text="Paris")
        return types.CreateMessageResult(role="assistant", content=content, model="fixed")

    async def elicit(self, _, params):
        self.asked.append(("elicitation", params.message))
        return types.ElicitResult(action="accept", content={"username": "ada", "email": "ada@example.com"})

    async def roots(self, _):
        self.asked.append(("roots",))
        return types.ListRootsResult(roots=[types.Root(uri="file:///home/ada", name="home")])

    async def log(self, params):
        self.logs.append(params.data)

    def client(self, target, mode):
        """The client of the Python SDK with these answers."""
        return Client(
            target,
            mode=mode,
            sampling_callback=self.sample,
            elicitation_callback=self.elicit,
            list_roots_callback=self.roots,
            logging_callback=self.log,
        )


class FastHost(Host):
    """The same for FastMCP."""

    asks_for_logs = True

    async def fast_sample(self, messages, params, _):
        return await self.sample(None, params)

    async def fast_elicit(self, message, _, params, __):
        answer = await self.elicit(None, params)
        return ElicitResult(action=answer.action, content=answer.content)

    async def fast_roots(self, _):
        return (await self.roots(None)).roots

    def client(self, target, mode):
        if isinstance(target, StdioServerParameters):
            target = StdioTransport(command=target.command, args=target.args)
        return FastClient(
            target,
            mode=mode,
            sampling_handler=self.fast_sample,
            elicitation_handler=self.fast_elicit,
            roots=self.fast_roots,
            log_handler=self.log,
        )


class FastClient(fastmcp.Client):
    """The client of FastMCP with the methods of the Python SDK."""

    async def call_tool(self, name, arguments, progress_callback=None):
        return await self.call_tool_mcp(name, arguments, progress_handler=progress_callback)

    list_tools = fastmcp.Client.list_tools_mcp
    list_resources = fastmcp.Client.list_resources_mcp
    list_resource_templates = fastmcp.Client.list_resource_templates_mcp
    list_prompts = fastmcp.Client.list_prompts_mcp
    read_resource = fastmcp.Client.read_resource_mcp
    get_prompt = fastmcp.Client.get_prompt_mcp


def text(result):
    assert not result.is_error, result
    return result.content[0].text


@task
async def lists_have_everything(client, _):
    assert {"greet", "test_sampling"} <= {it.name for it in (await client.list_tools()).tools}
    assert "test://watched-resource" in {str(it.uri) for it in (await client.list_resources()).resources}
    assert len((await client.list_resource_templates()).resource_templates) > 0
    assert len((await client.list_prompts()).prompts) > 0


@task
async def tools_are_called(client, _):
    assert text(await client.call_tool("greet", {"name": "Ada"})) == "Hello, Ada!"
    structured = await client.call_tool("test_structured", {"a": 1, "b": 2})
    assert structured.structured_content == {"sum": 3}, structured
    failed = await client.call_tool("test_error_handling", {})
    assert failed.is_error and "intentionally" in failed.content[0].text


@task
async def unknown_tools_are_errors(client, _):
    try:
        result = await client.call_tool("no_such_tool", {})
    except Exception as error:
        assert getattr(error, "code", None) == -32602 or "no_such_tool" in str(error), repr(error)
    else:
        raise AssertionError(result)


@task
async def progress_arrives_in_order(client, _):
    seen = []

    async def report(progress, total, message):
        seen.append((progress, total))

    await client.call_tool("test_tool_with_progress", {}, progress_callback=report)
    assert seen == [(0, 100), (50, 100), (100, 100)], seen


@task
async def resources_and_prompts_are_read(client, _):
    read = await client.read_resource("test://watched-resource")
    assert re.fullmatch(r"touched \d+ times", read.contents[0].text), read
    messages = (await client.get_prompt("test_simple_prompt")).messages
    assert [(it.role, it.content.text) for it in messages] == [("user", "This is a simple prompt for testing.")]


@task
async def the_server_samples(client, host):
    result = await client.call_tool("test_sampling", {"prompt": "What is the capital of France?"})
    assert text(result) == "LLM response: Paris", result
    assert host.asked == [("sampling", "What is the capital of France?", 100)], host.asked


@task
async def the_server_asks_the_user(client, host):
    result = await client.call_tool("test_elicitation", {"message": "Who are you?"})
    assert "action=accept" in text(result) and "ada@example.com" in text(result), result
    assert host.asked == [("elicitation", "Who are you?")], host.asked


@task
async def the_server_asks_for_roots(client, host):
    assert "file:///home/ada" in text(await client.call_tool("test_roots", {}))
    assert host.asked == [("roots",)], host.asked


@task
async def log_messages_arrive_if_they_are_asked_for(client, host):
    is_session = client.protocol_version < "2026-07-28"
    if is_session:
        await client.set_logging_level("info")
    host.logs.clear()
    await client.call_tool("test_tool_with_logging", {})
    # Each request of 2026-07-28 asks by itself.
    assert host.logs == (LOGS if is_session or host.asks_for_logs else []), host.logs


@task
async def calls_do_not_wait_for_each_other(client, _):
    slow = asyncio.create_task(client.call_tool("test_slow", {"ms": 1500}))
    await asyncio.sleep(0.1)
    assert text(await client.call_tool("greet", {"name": "Bob"})) == "Hello, Bob!"
    assert not slow.done()
    assert text(await slow) == "slow done"


@task
async def calls_are_cancelled(client, _):
    slow = asyncio.create_task(client.call_tool("test_slow", {"ms": 60_000}))
    await asyncio.sleep(0.3)
    slow.cancel()
    await asyncio.wait([slow], timeout=5)
    assert slow.done()
    assert text(await client.call_tool("greet", {"name": "Eve"})) == "Hello, Eve!"


async def start(command):
    """Starts a server over HTTP. Returns the process and the address."""
    server = await asyncio.create_subprocess_exec(
        *command, "--http", "127.0.0.1:0", stdin=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
    )
    while line := await asyncio.wait_for(server.stderr.readline(), PATIENCE):
        if found := re.match(r"at (http://[^/\s]+)", line.decode()):
            return server, found[1] + "/mcp"
    raise RuntimeError("the server does not say where it is")


async def main(library, mode, over, *command):
    server, target = None, StdioServerParameters(command=command[0], args=list(command[1:]))
    if over == "http":
        server, target = await start(command)
    host, passed, failed = {"mcp": Host, "fastmcp": FastHost}[library](), 0, 0
    try:
        async with host.client(target, mode) as client:
            print("revision", client.protocol_version)
            assert client.protocol_version == REVISIONS[mode], client.protocol_version
            for name, body in TASKS:
                host.asked.clear()
                try:
                    await asyncio.wait_for(body(client, host), PATIENCE)
                    passed += 1
                    print("ok", name)
                except Exception as error:
                    failed += 1
                    print(f"FAIL {name}: {error!r}"[:500].replace("\n", " "))
    finally:
        if server is not None:
            server.terminate()
            await server.wait()
    print(f"{passed} passed, {failed} failed")
    return failed


sys.exit(min(1, asyncio.run(main(*sys.argv[1:]))))
