"""Frames: what a client and the gateway say to each other on a WebSocket."""
