"""Transactions: requests at one moment, and what they may cost together."""
