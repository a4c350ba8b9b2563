"""The steps from a request to a call, and from a reply to an answer."""
