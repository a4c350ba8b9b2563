"""Where a request carries its credential, and how the API documents describe that."""

COOKIE = "headgate_token"
TICKET = "ticket"
SUBPROTOCOL = "headgate.bearer."
"""Before the token, where it is sent as a subprotocol of a WebSocket."""

SECURITY_SCHEMES: dict[str, dict[str, str]] = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "hg_<id>_<secret>, or a JWT",
        "description": "An API key, a token of the issuer that the gateway trusts, or a ticket. A "
        "gateway without credentials serves only its own machine and needs none.",
    },
    "ticket": {
        "type": "apiKey",
        "in": "query",
        "name": TICKET,
        "description": "A ticket from `POST /v1/tickets`, for requests on which a browser cannot "
        "set headers.",
    },
    "cookie": {
        "type": "apiKey",
        "in": "cookie",
        "name": COOKIE,
        "description": "A key or a token, for requests on which a browser cannot set headers.",
    },
}
"""Ways to present a credential. Rights stand as scopes at each operation."""
