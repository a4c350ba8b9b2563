"""Measuring: what the gateway, its streams and its groups are like, and were."""
