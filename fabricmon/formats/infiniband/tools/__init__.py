"""What the tools of a subnet print: one file a tool."""
