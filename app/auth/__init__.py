"""Auth: who asks, what they may do, and how much."""
