"""RESP: the port for Redis clients, with the commands of `/v1/commands` and connections."""
