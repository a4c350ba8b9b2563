"""Headgate's web shell: REST, Server-Sent Events and WebSocket over one backend."""
