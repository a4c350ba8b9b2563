"""RESP: the port for every Redis client, with the commands of `/v1/commands` and connections."""
