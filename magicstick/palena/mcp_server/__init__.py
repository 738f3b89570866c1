"""PalenaMCPServer: a web-search MCP server with its sidecars."""
