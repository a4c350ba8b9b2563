"""API keys: their form, their file, and the gateway's look at its changes."""
