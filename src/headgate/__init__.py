"""Headgate: Redis Streams over HTTP, Server-Sent Events and WebSocket."""
