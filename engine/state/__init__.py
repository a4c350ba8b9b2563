"""The state, as plain values: no asyncio, no clock, no I/O."""
