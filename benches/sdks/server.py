"""The smallest echo server of FastMCP, over standard input and output."""

from fastmcp import FastMCP
from fastmcp.tools import ToolResult

server = FastMCP("echo")


# A whole result: other return types would also send structured content, which the other servers do not.
@server.tool(output_schema=None)
async def echo(message: str) -> ToolResult:
    """Returns the message"""
    return ToolResult(content=message)


server.run(transport="stdio", show_banner=False)
