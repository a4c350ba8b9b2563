"""How much a principal may use, and how much it uses, at all processes of the gateway."""
