"""Measuring: present and past values of the gateway, its streams and its groups."""
