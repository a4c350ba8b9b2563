"""Headgate's engine: Redis Streams semantics as plain values, with one asyncio file on top."""
