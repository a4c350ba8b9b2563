"""Auth: principals, their rights, and their limits of use."""
