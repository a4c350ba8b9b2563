"""Webhooks: requests to URLs that users give, which must reach nothing that users may not."""
