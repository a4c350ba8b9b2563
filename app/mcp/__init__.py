"""Model Context Protocol: what AI agents can do with a gateway."""
