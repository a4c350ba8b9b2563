"""The processes that serve one gateway, and the supervisor that starts and keeps them."""
