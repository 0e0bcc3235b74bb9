"""A client of the Python SDK at a server of the examples.

usage: python client.py auto|legacy stdio COMMAND [ARGS...]
       python client.py auto|legacy http COMMAND [ARGS...]

Over HTTP, the server is started with `--http 127.0.0.1:0`, and says on its error output where it is. Prints a line for
each task, and `N passed, N failed` last.
"""

import asyncio
import re
import sys

import mcp_types as types
from mcp import Client, StdioServerParameters

PATIENCE = 20
TASKS = []


def task(body):
    TASKS.append((body.__name__.replace("_", " "), body))
    return body


class Host:
    """What the user of the client answers, and what the server has told."""

    def __init__(self):
        self.logs = []
        self.asked = []

    async def sample(self, _, params):
        self.asked.append("sampling")
        content = types.TextContent(type="text", text="Paris")
        return types.CreateMessageResult(role="assistant", content=content, model="fixed")

    async def elicit(self, _, params):
        self.asked.append("elicitation")
        return types.ElicitResult(action="accept", content={"username": "ada", "email": "ada@example.com"})

    async def roots(self, _):
        self.asked.append("roots")
        return types.ListRootsResult(roots=[types.Root(uri="file:///home/ada", name="home")])

    async def log(self, params):
        self.logs.append(params.data)


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
        assert "-32602" in repr(error) or "nknown" in str(error), repr(error)
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
    assert read.contents[0].text, read
    assert (await client.get_prompt("test_simple_prompt")).messages


@task
async def the_server_samples(client, host):
    result = await client.call_tool("test_sampling", {"prompt": "What is the capital of France?"})
    assert text(result) == "LLM response: Paris" and "sampling" in host.asked, result


@task
async def the_server_asks_the_user(client, host):
    result = await client.call_tool("test_elicitation", {"message": "Who are you?"})
    assert "action=accept" in text(result) and "ada@example.com" in text(result), result
    assert "elicitation" in host.asked


@task
async def the_server_asks_for_roots(client, host):
    assert "file:///home/ada" in text(await client.call_tool("test_roots", {})) and "roots" in host.asked


@task
async def calls_do_not_wait_for_each_other(client, _):
    slow = asyncio.create_task(client.call_tool("test_slow", {"ms": 600}))
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


async def main(mode, over, *command):
    server, target = None, StdioServerParameters(command=command[0], args=list(command[1:]))
    if over == "http":
        server, target = await start(command)
    host, passed, failed = Host(), 0, 0
    callbacks = {
        "sampling_callback": host.sample,
        "elicitation_callback": host.elicit,
        "list_roots_callback": host.roots,
        "logging_callback": host.log,
    }
    try:
        async with Client(target, mode=mode, **callbacks) as client:
            print("revision", client.protocol_version)
            for name, body in TASKS:
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
