"""Tokens of an issuer (JWT): the keys that verify them, and what a token must have."""
