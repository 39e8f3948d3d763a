"""The skill as an MCP server: the same functions as the `skill` command, as tools and resources."""
