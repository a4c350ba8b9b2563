"""Several processes that serve one gateway, and the process that starts and keeps them."""
