"""A Valkey cluster and two gateways on this machine: `python -m deploy.local_cluster`."""
