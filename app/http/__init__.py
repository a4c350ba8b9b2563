"""How a request becomes a call, and a reply an answer."""
